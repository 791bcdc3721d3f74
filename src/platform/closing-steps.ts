import type { Logger } from './logger.ts';

/** A step that takes longer is left behind, so that those after it are done as well. */
const STEP_MS = 6000;

/**
 * What has to be ended, in the reverse order of its beginning. Each part adds its own step when it has been started, so
 * the same list serves an ordinary end and a start that fails half way.
 */
export class ClosingSteps {
  readonly #log: Logger;
  readonly #steps: { name: string; close: () => unknown; withinMs: number }[] = [];
  #closing: Promise<void> | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  add(name: string, close: () => unknown, { withinMs = STEP_MS }: { withinMs?: number } = {}): void {
    this.#steps.push({ name, close, withinMs });
  }

  /** Does every step once, whatever became of the one before, and then throws if some of them failed. */
  close(): Promise<void> {
    return (this.#closing ??= this.#closeAll());
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      const { name, close, withinMs } = step;
      try {
        await within(withinMs, name, async () => close());
      } catch (error) {
        failures.push(error);
        this.#log.error({ err: error, step: name }, 'server.close_step_failed');
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'Some parts did not close in order.');
  }
}

async function within(ms: number, name: string, close: () => Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`"${name}" did not close within ${ms} ms.`)), ms);
  });
  try {
    await Promise.race([close(), late]);
  } finally {
    clearTimeout(timer);
  }
}
