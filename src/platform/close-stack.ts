import { clock, type Timer } from '../clock.ts';
import type { Logger } from './logger.ts';

/** A step that takes longer is abandoned, so that the steps after it still run. */
const STEP_MS = 6000;

/** A part of the server that works in the background from its start until it is closed. */
export interface BackgroundPart {
  start(): void | Promise<void>;
  /** Does now what it would do at the next of its timers, and resolves when that is done. */
  settle?(): Promise<void>;
  /** Called at most once, also when `start` has failed or was never called. */
  close(): unknown;
}

/**
 * The parts that have to be closed, in reverse order of their start. Each part is added when it starts, so the same
 * stack serves an orderly shutdown and a start that fails half way.
 */
export class CloseStack {
  readonly #log: Logger;
  readonly #steps: { name: string; close: () => unknown; withinMs: number }[] = [];
  #closing: Promise<void> | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  add(name: string, close: () => unknown, { withinMs = STEP_MS }: { withinMs?: number } = {}): void {
    this.#steps.push({ name, close, withinMs });
  }

  /** Starts a part and adds its `close`. */
  async start(name: string, part: BackgroundPart, options?: { withinMs?: number }): Promise<void> {
    this.add(name, () => part.close(), options);
    await part.start();
  }

  /** Runs every step once, even when earlier ones fail or take too long, and then throws if any of them did. */
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
    if (failures.length === 0) return;
    const reasons = failures.map((failure) => (failure instanceof Error ? failure.message : 'unknown'));
    throw new AggregateError(failures, `Some parts of the server failed to close: ${reasons.join('; ')}`);
  }
}

async function within(ms: number, name: string, close: () => Promise<unknown>): Promise<void> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = clock.setTimeout(() => reject(new Error(`"${name}" did not close within ${ms} ms.`)), ms);
  });
  try {
    await Promise.race([close(), late]);
  } finally {
    clock.clear(timer);
  }
}
