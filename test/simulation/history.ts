/** Why a run is not right. */
export interface Violation {
  rule: string;
  at: number;
  text: string;
}

/** What has happened in a world: a hash of all of it, which two runs of one seed share, and the last lines. */
export class History {
  readonly violations: Violation[] = [];
  readonly #now: () => number;
  readonly #tail: number;
  /** Lines of the log of the servers and of the world, the newest at the end. */
  #lines: string[] = [];
  #hash = 2_166_136_261;
  #hash2 = 5381;
  lines = 0;
  /** Ends the run at the first violation. */
  stopsAtOnce = true;

  /** @param tail  how many lines are kept */
  constructor(now: () => number, tail: number) {
    this.#now = now;
    this.#tail = tail;
  }

  get isOver(): boolean {
    return this.stopsAtOnce && this.violations.length > 0;
  }

  /** Two runs are the same if they have the same digest. */
  get digest(): string {
    return `${this.lines}-${(this.#hash >>> 0).toString(16)}${(this.#hash2 >>> 0).toString(16)}`;
  }

  get tail(): readonly string[] {
    return this.#lines.slice(-this.#tail);
  }

  note(who: string, what: string): void {
    const line = `${(this.#now() / 1000).toFixed(3).padStart(9)} ${who.padEnd(8)} ${what}`;
    for (let at = 0; at < line.length; at++) {
      const code = line.charCodeAt(at);
      this.#hash = Math.imul(this.#hash ^ code, 16_777_619);
      this.#hash2 = (Math.imul(this.#hash2, 33) + code) | 0;
    }
    this.lines += 1;
    this.#lines.push(line);
    if (this.#lines.length > 2 * this.#tail) this.#lines = this.#lines.slice(-this.#tail);
  }

  violated(rule: string, text: string): void {
    this.note('AUDITOR', `${rule}: ${text}`);
    this.violations.push({ rule, at: this.#now(), text });
  }
}
