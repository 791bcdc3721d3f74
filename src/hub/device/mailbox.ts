/**
 * Handles one message at a time, urgent ones (life cycle) first. Handlers are synchronous: one that has to wait records
 * what is pending and receives the answer as a new message.
 */
export class Mailbox<M> {
  readonly #handle: (message: M) => void;
  readonly #capacity: number;
  #urgent: M[] = [];
  #normal: M[] = [];
  #busy = false;
  #held = false;
  #resumeScheduled = false;

  /** @param capacity  the most normal messages that may wait */
  constructor(handle: (message: M) => void, capacity: number) {
    this.#handle = handle;
    this.#capacity = capacity;
  }

  get depth(): number {
    return this.#urgent.length + this.#normal.length;
  }

  /** False when the mailbox is full. The sender has to reject the message. */
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

  /** Until released, only urgent messages are handled. */
  hold(): void {
    this.#held = true;
  }

  release(): void {
    this.#held = false;
    this.#run();
  }

  /** Removes and returns the first waiting normal message that fits. */
  withdraw(fits: (message: M) => boolean): M | undefined {
    const at = this.#normal.findIndex(fits);
    return at === -1 ? undefined : this.#normal.splice(at, 1)[0];
  }

  /** Removes and returns all waiting messages, so that they can be rejected. */
  drain(): M[] {
    const waiting = [...this.#urgent, ...this.#normal];
    this.#urgent = [];
    this.#normal = [];
    return waiting;
  }

  get #isIdle(): boolean {
    return !this.#busy && !this.#resumeScheduled && this.depth === 0;
  }

  /** Handles a message without queueing it, which is the normal case: nothing else waits. */
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
      // After a turn that threw as well: waiting messages must not depend on another post.
      if (!empty) this.#resumeLater();
    }
  }

  /** A flooded device must not keep others waiting. */
  #resumeLater(): void {
    this.#resumeScheduled = true;
    setImmediate(() => {
      this.#resumeScheduled = false;
      this.#run();
    });
  }
}

const TURNS_IN_A_ROW = 64;
