const BUDGET_MS = 4;
/** Work that goes on for long leaves others three quarters of the time. */
const REST_MS = 12;

/** Long work in small pieces: others get their turn in between. */
export class Turns {
  #until = performance.now() + BUDGET_MS;

  get isOver(): boolean {
    return performance.now() > this.#until;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => setTimeout(resolve, REST_MS));
    this.#until = performance.now() + BUDGET_MS;
  }
}
