/** The longest text without an end that may still become an event. Real events have some kilobytes. */
const EVENT_LENGTH_MAX = 2_000_000;

const MARKS = /<!\[CDATA\[|<!--|<Event(?:\s(?:"[^"<]*"|'[^'<]*'|[^"'<>])*)?>|<\/Event\s*>/g;

/**
 * Splits text into its `<Event>…</Event>` elements, which wevtutil prints without a common root. An event may hold the
 * end of an event itself, in a CDATA section or as the end of an inner element of that name.
 */
export class EventSplitter {
  /** Begins with the event that is open, if one is. */
  #rest = '';
  /** Up to where the rest was read, and how many elements of the name are open there. */
  #at = 0;
  #depth = 0;
  #lost = 0;

  /** How many events were left out, because they have no end or are too long. */
  get lost(): number {
    return this.#lost;
  }

  add(text: string): string[] {
    this.#rest += text;
    const events = this.#split();
    while (this.#rest.length > EVENT_LENGTH_MAX) {
      this.#giveUp();
      events.push(...this.#split());
    }
    return events;
  }

  /** The events behind one without an end. To be called when there is no more text. */
  end(): string[] {
    const events: string[] = [];
    while (this.#depth > 0) {
      this.#giveUp();
      events.push(...this.#split());
    }
    return events;
  }

  #split(): string[] {
    const events: string[] = [];
    let begin = 0;
    for (let mark = this.#next(); mark !== undefined; mark = this.#next()) {
      if (mark.text.endsWith('/>')) continue;
      if (mark.text.startsWith('</')) {
        this.#depth = Math.max(0, this.#depth - 1);
        if (this.#depth === 0 && begin < mark.start) events.push(this.#rest.slice(begin, this.#at));
        if (this.#depth === 0) begin = this.#at;
      } else {
        if (this.#depth === 0) begin = mark.start;
        this.#depth += 1;
      }
    }
    if (this.#depth === 0) begin = this.#at;
    this.#rest = this.#rest.slice(begin);
    this.#at -= begin;
    return events;
  }

  /** The next start or end of an event; `undefined` where the text ends before it does. */
  #next(): { text: string; start: number } | undefined {
    for (;;) {
      MARKS.lastIndex = this.#at;
      const found = MARKS.exec(this.#rest);
      if (found === null) {
        // The last tag may be incomplete.
        this.#at = Math.max(this.#at, this.#rest.lastIndexOf('<'));
        return undefined;
      }
      const [text] = found;
      const close = text === '<![CDATA[' ? ']]>' : text === '<!--' ? '-->' : undefined;
      if (close === undefined) {
        this.#at = MARKS.lastIndex;
        return { text, start: found.index };
      }
      const closed = this.#rest.indexOf(close, MARKS.lastIndex);
      this.#at = closed === -1 ? found.index : closed + close.length;
      if (closed === -1) return undefined;
    }
  }

  /** Drops the start of the event that is open. The next one is looked for within its text. */
  #giveUp(): void {
    if (this.#depth > 0) this.#lost += 1;
    const next = this.#rest.indexOf('<Event', 1);
    this.#rest = next === -1 ? '' : this.#rest.slice(next);
    this.#at = 0;
    this.#depth = 0;
  }
}
