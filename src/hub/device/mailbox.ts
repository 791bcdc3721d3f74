/**
 * One turn at a time: a message is handled only when the one before it is done. Urgent ones (life cycle) go first.
 * Turns are synchronous; whoever must wait notes what is pending and takes the answer as a new message.
 */
export class Mailbox<M> {
  readonly #handle: (message: M) => void;
  readonly #capacity: number;
  #urgent: M[] = [];
  #normal: M[] = [];
  #busy = false;
  #held = false;
  #resumeScheduled = false;

  /** @param capacity  most normal messages that may wait */
  constructor(handle: (message: M) => void, capacity: number) {
    this.#handle = handle;
    this.#capacity = capacity;
  }

  get depth(): number {
    return this.#urgent.length + this.#normal.length;
  }

  /** False when the mailbox is full: the sender says so to whoever asked. */
  post(message: M): boolean {
    if (this.#normal.length >= this.#capacity) return false;
    if (this.#held || !this.#isIdle) {
      this.#normal.push(message);
      this.#run();
    } else this.#turnAtOnce(message);
    return true;
  }

  postUrgent(message: M): void {
    if (this.#isIdle) return this.#turnAtOnce(message);
    this.#urgent.push(message);
    this.#run();
  }

  /** Until released, only urgent messages have their turn. */
  hold(): void {
    this.#held = true;
  }

  release(): void {
    this.#held = false;
    this.#run();
  }

  /** Takes out the first waiting message that fits, so that its turn never comes. */
  withdraw(fits: (message: M) => boolean): M | undefined {
    const at = this.#normal.findIndex(fits);
    return at === -1 ? undefined : this.#normal.splice(at, 1)[0];
  }

  /** Takes out what waits, so that each can be told that its turn will not come. */
  drain(): M[] {
    const waiting = [...this.#urgent, ...this.#normal];
    this.#urgent = [];
    this.#normal = [];
    return waiting;
  }

  get #isIdle(): boolean {
    return !this.#busy && !this.#resumeScheduled && this.depth === 0;
  }

  /** Nothing waits, as is so for nearly every message: it does not have to be queued to be taken out again. */
  #turnAtOnce(message: M): void {
    this.#busy = true;
    let threw = true;
    try {
      this.#handle(message);
      threw = false;
    } finally {
      this.#busy = false;
      if (threw) this.#resumeLater();
      else if (this.depth > 0) this.#run();
    }
  }

  #next(): M | undefined {
    return this.#urgent.shift() ?? (this.#held ? undefined : this.#normal.shift());
  }

  #run(): void {
    if (this.#busy || this.#resumeScheduled) return;
    this.#busy = true;
    let empty = false;
    try {
      for (let turns = 0; turns < TURNS_IN_A_ROW && !empty; turns++) {
        const message = this.#next();
        if (message === undefined) empty = true;
        else this.#handle(message);
      }
    } finally {
      this.#busy = false;
      // Also behind a turn that threw: what waits must not depend on someone posting more.
      if (!empty) this.#resumeLater();
    }
  }

  /** One flooded device must not keep the others from their turns. */
  #resumeLater(): void {
    this.#resumeScheduled = true;
    setImmediate(() => {
      this.#resumeScheduled = false;
      this.#run();
    });
  }
}

const TURNS_IN_A_ROW = 64;
