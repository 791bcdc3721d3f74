import { clock } from '../../clock.ts';
import type { EngineCode } from '../engine-error.ts';
import { codeOfExit, type FailureText, failureText, retriedText } from '../output/failure-texts.ts';
import { LineSplitter } from './lines.ts';
import type { RetryWatch } from './retry-watch.ts';

const LINE_MAX = 4000;
const KEPT_LINES = 20;

/** restic's error output: every line is offered, the reason of a failure is remembered, and little of it is kept. */
export class ErrorOutput {
  readonly #lines = new LineSplitter(LINE_MAX);
  readonly #onLine: ((line: string) => boolean) | undefined;
  readonly #onHopeless: () => void;
  readonly #retries: RetryWatch | undefined;
  readonly #kept: string[] = [];
  #code: EngineCode | undefined;

  /**
   * @param onLine  returns whether it has dealt with the line, which then says nothing about the whole run
   * @param onHopeless  called where restic is about to try again what does not succeed that way
   * @param retries  knows how long it has done so in vain
   */
  constructor(
    onLine: ((line: string) => boolean) | undefined,
    onHopeless: () => void = () => {},
    retries?: RetryWatch,
  ) {
    this.#onLine = onLine;
    this.#onHopeless = onHopeless;
    this.#retries = retries;
  }

  push(bytes: Uint8Array): void {
    for (const line of this.#lines.push(bytes)) this.#read(line);
  }

  end(): void {
    for (const line of this.#lines.end()) this.#read(line);
  }

  /** The first text with a meaning decides; restic repeats itself in other words. */
  codeFor(exitCode: number | null): EngineCode {
    return codeOfExit(exitCode) ?? this.#code ?? 'ENGINE_FAILED';
  }

  get text(): string {
    return this.#kept.join('\n');
  }

  #read(line: string): void {
    if (this.#onLine?.(line) === true) return;
    const retried = retriedText(line);
    if (retried === undefined) this.#keep(failureText(line));
    else if (this.#isInVain(retried)) {
      this.#keep({ ...retried, code: retried.code ?? 'DESTINATION_UNREACHABLE' });
      this.#onHopeless();
    }
  }

  /** A full destination would be sent the same data for most of a minute, one that stays away would be asked for hours. */
  #isInVain({ code }: FailureText): boolean {
    return code === 'DESTINATION_FULL' || this.#retries?.retried(clock.monotonic()) === true;
  }

  #keep(failure: FailureText | undefined): void {
    if (failure === undefined) return;
    this.#code ??= failure.code;
    if (this.#kept.length < KEPT_LINES) this.#kept.push(failure.text);
  }
}
