const BUDGET_MS = 4;
/** What nobody waits for leaves others three quarters of the time. */
export const UNHURRIED_MS = 12;

/** Long work in small pieces: others get their turn in between. */
export class Turns {
  readonly #restMs: number;
  #until = performance.now() + BUDGET_MS;

  /** @param restMs  left out: as soon as others have had theirs */
  constructor(restMs?: number) {
    this.#restMs = restMs ?? 0;
  }

  get isOver(): boolean {
    return performance.now() > this.#until;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#restMs === 0) setImmediate(resolve);
      else setTimeout(resolve, this.#restMs);
    });
    this.#until = performance.now() + BUDGET_MS;
  }
}
