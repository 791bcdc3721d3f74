/** Of each turn of the event loop at most so much goes into letting connections in. */
const MS_A_TURN = 4;

/**
 * Connections come in one after the other, a few in each turn of the event loop, in the order they came: ten thousand
 * at once would otherwise be one turn of seconds, in which nobody else is served. Who comes alone does not wait.
 */
export class EntryPace {
  #waiting: (() => void)[] = [];
  #next = 0;
  #isScheduled = false;

  enter(letIn: () => void): void {
    if (this.#isScheduled) {
      this.#waiting.push(letIn);
      return;
    }
    this.#inNextTurn();
    letIn();
  }

  #inNextTurn(): void {
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#next === this.#waiting.length) return;
      this.#inNextTurn();
      const until = performance.now() + MS_A_TURN;
      while (this.#next < this.#waiting.length && performance.now() < until) {
        const letIn = this.#waiting[this.#next++];
        letIn?.();
      }
      if (this.#next === this.#waiting.length) {
        this.#waiting = [];
        this.#next = 0;
      }
    });
  }
}
