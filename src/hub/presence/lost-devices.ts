import { clock, type Timer } from '../../clock.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { HubMessage } from '../cluster/messages.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { ClusterFeed } from '../feed/cluster-feed.ts';
import type { DeviceStore } from '../ports.ts';

/** Twice the time that writing presence takes. */
const GRACE_MS = 1000;
const RETRY_MS = 1000;
const RETRY_MAX_MS = 10_000;

interface Parts {
  store: DeviceStore;
  registry: ActorRegistry;
  feed: ClusterFeed;
  bus: NodeBus<HubMessage>;
  /** The nodes that are alive; left out when there are no others. */
  nodes: (() => ReadonlySet<string> | undefined) | undefined;
  log: Logger;
}

/** Marks the devices of a lost node as disconnected, unless they have reconnected to another one. */
export class LostDevices {
  readonly #parts: Parts;
  readonly #timers = new Set<Timer>();
  #hasMarkedOrphans: boolean;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#hasMarkedOrphans = parts.nodes === undefined;
    parts.bus.onNodeLost((nodeId) => {
      // The node was silent for long enough. Presence of its devices on this node is about to be written.
      this.#markAfter(GRACE_MS, nodeId);
    });
  }

  /** Marks devices of nodes that were lost while no node was running: once, as soon as the live nodes are known. */
  markOrphans(): void {
    const { nodes, log } = this.#parts;
    const alive = nodes?.();
    if (this.#hasMarkedOrphans || alive === undefined) return;
    this.#hasMarkedOrphans = true;
    this.#mark({ allBut: [...alive] }).catch((error: unknown) => {
      this.#hasMarkedOrphans = false;
      log.warn({ err: error }, 'hub.orphans_not_marked');
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clock.clear(timer);
  }

  /** Tries until it succeeds or the node is back: all nodes may fail at their first attempt. */
  #markAfter(ms: number, nodeId: string, attempt = 1): void {
    const { nodes, log } = this.#parts;
    const timer = clock.setTimeout(() => {
      this.#timers.delete(timer);
      if (nodes?.()?.has(nodeId) === true) return;
      this.#mark({ of: nodeId }).catch((error: unknown) => {
        if (attempt === 1) log.error({ err: error, lostNodeId: nodeId }, 'hub.lost_devices_not_marked');
        if (!this.#isClosed) this.#markAfter(Math.min(attempt * RETRY_MS, RETRY_MAX_MS), nodeId, attempt + 1);
      });
    }, ms);
    this.#timers.add(timer);
  }

  async #mark(nodes: Parameters<DeviceStore['markLost']>[0]): Promise<void> {
    const { store, registry, feed } = this.#parts;
    for (const { deviceId, presence, epoch } of await store.markLost(nodes)) {
      const actor = registry.get(deviceId);
      // The device has reconnected here, which is not written yet.
      if (actor?.countsAsConnected === true) actor.republish();
      // The node that has it now must say so, whether or not it shows the device.
      else feed.changed(deviceId, { presence }, { epoch, isForAll: true });
    }
  }
}
