import { withoutSecrets } from '../../agent/os/diagnostics/without-secrets.ts';

const LINES = 12;
const LINE_MAX = 160;
/** Of a long line, no more is kept, such as of the line of a bundle that a stack quotes. */
const OPEN_MAX = 4096;

/** The last lines of what a program has written, for the report of why it has ended: few, short, and without secrets. */
export class LastLines {
  #lines: string[] = [];
  #open = '';

  add(text: string): void {
    const parts = (this.#open + text).split('\n');
    this.#open = (parts.pop() ?? '').slice(-OPEN_MAX);
    const whole = parts.slice(-LINES).map((line) => line.slice(0, OPEN_MAX));
    this.#lines = [...this.#lines, ...whole].slice(-LINES);
  }

  get lines(): string[] {
    return [...this.#lines, this.#open]
      .map((line) => plain(withoutSecrets(line).slice(0, LINE_MAX)))
      .filter((line) => line !== '')
      .slice(-LINES);
  }
}

/** Without control characters, and without halves of characters that were cut. */
const plain = (line: string) => line.replaceAll(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ').trim();
