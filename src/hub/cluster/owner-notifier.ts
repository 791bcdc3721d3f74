import { clock } from '../../clock.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Directory } from './directory.ts';
import type { DeviceNotice, HubMessage } from './messages.ts';

/** While the bus is unavailable, a notice is retried for about a quarter of an hour. */
const ATTEMPTS = 100;
const RETRY_MS = 1000;
const RETRY_MAX_MS = 10_000;

/** Sends notices to the nodes that own devices. A device that no node owns learns what it needs when it connects. */
export class OwnerNotifier {
  readonly #directory: Directory;
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  #isClosed = false;

  constructor(parts: { directory: Directory; bus: NodeBus<HubMessage>; log: Logger }) {
    this.#directory = parts.directory;
    this.#bus = parts.bus;
    this.#log = parts.log;
  }

  notify(notice: DeviceNotice, attempt = 1): void {
    const { deviceId } = notice;
    this.#directory
      .find(deviceId)
      .then(async (owner) => {
        if (owner === undefined || owner.nodeId === this.#bus.nodeId) return;
        await this.#bus.send(owner.nodeId, notice);
      })
      .catch((error: unknown) => {
        // One entry for each notice: the loss of Redis has a log entry of its own.
        if (attempt === 1) this.#log.warn({ err: error, deviceId }, 'hub.owner_not_notified');
        if (attempt >= ATTEMPTS || this.#isClosed) return;
        const waitMs = Math.min(attempt * RETRY_MS, RETRY_MAX_MS);
        clock.setTimeout(() => this.notify(notice, attempt + 1), waitMs).unref();
      });
  }

  close(): void {
    this.#isClosed = true;
  }
}
