import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { ClusterFeed } from '../feed/cluster-feed.ts';
import type { DeviceStore } from '../ports.ts';
import type { HubMessage } from '../cluster/router.ts';

/** Twice what presence takes to be written. */
const GRACE_MS = 1000;
/** When the database is asked again that could not be told. */
const AGAIN_MS = 1000;
const AGAIN_MAX_MS = 10_000;

interface Parts {
  store: DeviceStore;
  registry: ActorRegistry;
  feed: ClusterFeed;
  bus: NodeBus<HubMessage>;
  /** The nodes that are there; left out where this one is alone. */
  nodes: (() => ReadonlySet<string> | undefined) | undefined;
  log: Logger;
}

/** What a node held that is gone is not connected any more, unless it has come back somewhere else. */
export class LostDevices {
  readonly #parts: Parts;
  readonly #timers = new Set<NodeJS.Timeout>();
  #knowsStrays: boolean;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#knowsStrays = parts.nodes === undefined;
    parts.bus.onNodeLost((nodeId) => this.#nodeLost(nodeId));
  }

  /** What nodes have left behind that went while nobody was there to see it: once, when it is known who is there. */
  markStrays(): void {
    const { nodes, log } = this.#parts;
    const there = nodes?.();
    if (this.#knowsStrays || there === undefined) return;
    this.#knowsStrays = true;
    this.#mark({ allBut: [...there] }).catch((error: unknown) => {
      this.#knowsStrays = false;
      log.warn({ err: error }, 'hub.strays_not_marked');
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #nodeLost(nodeId: string): void {
    // It was silent for long enough; what has come here in the meantime is about to be written.
    this.#markAfter(GRACE_MS, nodeId);
  }

  /** Tries until it is done, or the node is back: nobody else does it where all nodes failed at the first attempt. */
  #markAfter(ms: number, nodeId: string, attempt = 1): void {
    const { nodes, log } = this.#parts;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (nodes?.()?.has(nodeId) === true) return;
      this.#mark({ of: nodeId }).catch((error: unknown) => {
        if (attempt === 1) log.error({ err: error, lostNodeId: nodeId }, 'hub.lost_devices_not_marked');
        if (!this.#isClosed) this.#markAfter(Math.min(attempt * AGAIN_MS, AGAIN_MAX_MS), nodeId, attempt + 1);
      });
    }, ms);
    this.#timers.add(timer);
  }

  async #mark(nodes: Parameters<DeviceStore['markLost']>[0]): Promise<void> {
    const { store, registry, feed } = this.#parts;
    for (const { deviceId, presence, epoch } of await store.markLost(nodes)) {
      const actor = registry.get(deviceId);
      // It has come here meanwhile, which the database is about to hear.
      if (actor?.countsAsConnected === true) actor.tellAgain();
      else feed.changed(deviceId, { presence }, epoch);
    }
  }
}
