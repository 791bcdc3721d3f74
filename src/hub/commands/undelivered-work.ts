import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { CommandLedger } from '../ports.ts';

/** How often every node looks, at the earliest; each time up to twice as long, so that nodes do not all look at once. */
const EVERY_MS = 10_000;
const DEVICES_AT_ONCE = 1000;

interface Parts {
  ledger: Pick<CommandLedger, 'undelivered'>;
  registry: ActorRegistry;
  wake: (deviceId: string) => void;
  log: Logger;
  everyMs?: number | undefined;
}

/**
 * Finds work in the ledger whose device is connected here but was never told of it: the node that took the command may
 * have died before it could tell, or had no Redis. Normally a notice brings each command to its device at once; this
 * makes sure that a lost notice delays a command and does not lose it.
 */
export class OverlookedWork {
  readonly #parts: Parts;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#schedule();
  }

  /** Looks now, unless it is looking already. */
  async look(): Promise<void> {
    if (this.#isClosed) return;
    this.#looking ??= this.#lookThrough().finally(() => (this.#looking = undefined));
    await this.#looking;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #schedule(): void {
    const everyMs = this.#parts.everyMs ?? EVERY_MS;
    this.#timer = setTimeout(
      () => void this.look().then(() => this.#isClosed || this.#schedule()),
      everyMs * (1 + Math.random()),
    ).unref();
  }

  async #lookThrough(): Promise<void> {
    const { ledger, registry, wake, log } = this.#parts;
    let after: string | undefined;
    try {
      while (!this.#isClosed && registry.size > 0) {
        const deviceIds = await ledger.undelivered(after, DEVICES_AT_ONCE);
        for (const deviceId of deviceIds) if (registry.get(deviceId)?.isConnected === true) wake(deviceId);
        if (deviceIds.length < DEVICES_AT_ONCE) return;
        after = deviceIds.at(-1);
      }
    } catch (error) {
      // The next look comes by itself.
      log.warn({ err: error }, 'commands.overlooked_work_not_read');
    }
  }
}
