import { clock } from '../../clock.ts';
import { pathText } from '../../protocol/index.ts';
import type { EngineCode } from '../engine-error.ts';
import { codeOfExit, type FailureText, failureText, retriedText } from '../output/failure-texts.ts';
import { type Line, LineSplitter } from './lines.ts';
import type { RetryWatch } from './retry-watch.ts';

/**
 * More than a line takes that names one file: restic writes its path up to three times, each of 4,096 bytes that JSON
 * writes as six characters.
 */
const LINE_MAX = 128 * 1024;
const KEPT_LINES = 20;
const KEPT_LENGTH = 4000;

export type OnErrorLine = (line: string, isCut: boolean) => boolean;

const BRACE = 0x7b;
/** JSON is UTF-8. Everything else that restic prints has the names of files as their bytes, where names are bytes. */
const textOf = (line: Buffer): string =>
  line[0] === BRACE || process.platform === 'win32' ? line.toString('utf8') : pathText(line);

/** restic's error output: every line is offered, the reason of a failure is remembered, and little of it is kept. */
export class ErrorOutput {
  readonly #lines = new LineSplitter(LINE_MAX, textOf);
  readonly #onLine: OnErrorLine | undefined;
  readonly #onHopeless: () => void;
  readonly #retries: RetryWatch | undefined;
  readonly #kept: string[] = [];
  #code: EngineCode | undefined;

  /**
   * @param onLine  returns whether it has dealt with the line, which then says nothing about the whole run
   * @param onHopeless  called where restic is about to try again what does not succeed that way
   * @param retries  knows how long it has done so in vain
   */
  constructor(onLine: OnErrorLine | undefined, onHopeless: () => void = () => {}, retries?: RetryWatch) {
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

  #read({ text: line, isCut }: Line): void {
    if (this.#onLine?.(line, isCut) === true) return;
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
    if (this.#kept.length < KEPT_LINES) this.#kept.push(failure.text.slice(0, KEPT_LENGTH));
  }
}
