import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { CommandLedger } from '../ports/command-ledger.ts';

/** The shortest time between two scans. Each pause is up to twice as long, so that nodes do not scan together. */
const EVERY_MS = 10_000;
const DEVICES_PER_READ = 1000;

interface Parts {
  ledger: Pick<CommandLedger, 'undelivered'>;
  registry: ActorRegistry;
  wake: (deviceId: string) => void;
  log: Logger;
  everyMs?: number | undefined;
}

/**
 * Finds undelivered commands whose device is connected to this node. The node that accepted the command may have failed
 * before it could notify this one, or Redis may have been unavailable. Normally a notice brings each command to its
 * device at once; the scan makes sure that a lost notice delays a command and does not lose it.
 */
export class UndeliveredWork {
  readonly #parts: Parts;
  #timer: Timer | undefined;
  #scanning: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#schedule();
  }

  /** Scans now. A scan that is under way is not repeated. */
  async scan(): Promise<void> {
    if (this.#isClosed) return;
    this.#scanning ??= this.#scanAll().finally(() => (this.#scanning = undefined));
    await this.#scanning;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#scanning;
  }

  #schedule(): void {
    const everyMs = this.#parts.everyMs ?? EVERY_MS;
    this.#timer = clock
      .setTimeout(
        () => void this.scan().then(() => this.#isClosed || this.#schedule()),
        everyMs * (1 + Math.random()),
      )
      .unref();
  }

  async #scanAll(): Promise<void> {
    const { ledger, registry, wake, log } = this.#parts;
    let after: string | undefined;
    try {
      while (!this.#isClosed && registry.size > 0) {
        const deviceIds = await ledger.undelivered(after, DEVICES_PER_READ);
        for (const deviceId of deviceIds) if (registry.get(deviceId)?.isConnected === true) wake(deviceId);
        if (deviceIds.length < DEVICES_PER_READ) return;
        after = deviceIds.at(-1);
      }
    } catch (error) {
      // The next scan follows in any case.
      log.warn({ err: error }, 'commands.undelivered_work_not_read');
    }
  }
}
