import type { EngineCode } from '../engine-error.ts';
import { codeOfExit, failureText, hopelessText } from '../output/failure-texts.ts';
import { LineSplitter } from './lines.ts';

const LINE_MAX = 4000;
const KEPT_LINES = 20;

/** restic's error output: every line is offered, the reason of a failure is remembered, and little of it is kept. */
export class ErrorOutput {
  readonly #lines = new LineSplitter(LINE_MAX);
  readonly #onLine: ((line: string) => boolean) | undefined;
  readonly #onHopeless: () => void;
  readonly #kept: string[] = [];
  #code: EngineCode | undefined;

  /**
   * @param onLine  returns whether it has dealt with the line, which then says nothing about the whole run
   * @param onHopeless  called where restic is about to try again what does not succeed that way
   */
  constructor(onLine: ((line: string) => boolean) | undefined, onHopeless: () => void = () => {}) {
    this.#onLine = onLine;
    this.#onHopeless = onHopeless;
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
    const hopeless = hopelessText(line);
    const failure = hopeless ?? failureText(line);
    if (failure === undefined) return;
    this.#code ??= failure.code;
    if (this.#kept.length < KEPT_LINES) this.#kept.push(failure.text);
    if (hopeless !== undefined) this.#onHopeless();
  }
}
