/** Values of fields are cut to this many characters: twice as long as the longest message that is shown. */
const VALUE_MAX = 65_536;
/** Lines up to this length are taken as they are. */
const LINE_MAX = 1_000_000;
/** What is longer even with its values cut is left out. */
const SHORTENED_MAX = 16_000_000;

const QUOTE = 34;
const BACKSLASH = 92;
const LOWER_U = 117;

/**
 * Splits the output of journalctl into lines. The values of a very long line are cut while it arrives, because a record
 * that was cut anywhere else cannot be parsed and would be missing.
 */
export class JournalLines {
  readonly #max: number;
  #rest = '';
  #shortenAt = LINE_MAX;
  #isSkipping = false;
  #lost = 0;

  constructor(max = SHORTENED_MAX) {
    this.#max = max;
  }

  /** How many lines were left out. */
  get lost(): number {
    return this.#lost;
  }

  add(text: string): string[] {
    const [first = '', ...others] = text.split('\n');
    if (!this.#isSkipping) this.#rest += first;
    if (others.length === 0) {
      this.#keepShort();
      return [];
    }
    const last = others.pop() ?? '';
    const lines = [...this.end(), ...others];
    this.#rest = last;
    this.#keepShort();
    return lines;
  }

  /** The last line, where no line break ends it. */
  end(): string[] {
    const wasShortened = this.#shortenAt > LINE_MAX;
    const line = wasShortened ? shortenValues(this.#rest, VALUE_MAX) : this.#rest;
    this.#rest = '';
    this.#shortenAt = LINE_MAX;
    const isComplete = !this.#isSkipping && line !== '';
    this.#isSkipping = false;
    return isComplete ? [line] : [];
  }

  #keepShort(): void {
    if (this.#rest.length <= this.#shortenAt) return;
    this.#rest = shortenValues(this.#rest, VALUE_MAX);
    this.#shortenAt = this.#rest.length + LINE_MAX;
    if (this.#rest.length <= this.#max) return;
    this.#rest = '';
    this.#isSkipping = true;
    this.#lost += 1;
  }
}

/**
 * Cuts the texts and the lists of numbers in JSON. The JSON may be incomplete: the result can be continued with the
 * characters that come next.
 */
export function shortenValues(json: string, max: number): string {
  const parts: string[] = [];
  let kept = 0;
  const drop = (from: number, to: number) => {
    if (to <= from) return;
    parts.push(json.slice(kept, from));
    kept = to;
  };
  for (let at = 0; at < json.length; ) {
    if (json.charCodeAt(at) === QUOTE) {
      const { cutAt, end } = textFrom(json, at + 1, max);
      drop(cutAt, end);
      at = end + 1;
    } else {
      const end = numbersEnd(json, at);
      const cutAt = json.lastIndexOf(',', at + max);
      if (end - at > max && cutAt > at) drop(cutAt, json.lastIndexOf(',', end - 1));
      at = Math.max(at + 1, end);
    }
  }
  parts.push(json.slice(kept));
  return parts.join('');
}

/** Where a text may be cut, and where it ends: at its quote, or before an escape that is incomplete. */
function textFrom(json: string, start: number, max: number): { cutAt: number; end: number } {
  let cutAt = start;
  let at = start;
  while (at < json.length) {
    if (at - start <= max) cutAt = at;
    const code = json.charCodeAt(at);
    if (code === QUOTE) break;
    const length = code !== BACKSLASH ? 1 : json.charCodeAt(at + 1) === LOWER_U ? 6 : 2;
    if (at + length > json.length) break;
    at += length;
  }
  return { cutAt: at - start <= max ? at : cutAt, end: at };
}

function numbersEnd(json: string, start: number): number {
  let at = start;
  for (; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    const isNumber = (code >= 48 && code <= 57) || code === 44 || code === 32;
    if (!isNumber) break;
  }
  return at;
}
