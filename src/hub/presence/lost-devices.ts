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
/** How long another node has to write that a device is connected there, and how often that is looked into. */
const WRITTEN_AFTER_MS = 5000;
const LOOK_EVERY_MS = 10_000;
const TAKEN_OVER_MAX = 10_000;

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
  /** By device, a claim of another node that followed the one of this node, and when. */
  readonly #takenOver = new Map<string, { epoch: number; at: number }>();
  #looking: Timer | undefined;
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

  /**
   * Another node has claimed a device of this one. If that node dies before it has written so, the record goes on saying
   * that the device is connected here, and nobody else would correct it.
   */
  takenOver(deviceId: string, epoch: number): void {
    this.#takenOver.delete(deviceId);
    this.#takenOver.set(deviceId, { epoch, at: clock.monotonic() });
    const [oldest] = this.#takenOver.keys();
    if (this.#takenOver.size > TAKEN_OVER_MAX && oldest !== undefined) this.#takenOver.delete(oldest);
    this.#lookLater();
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
    clock.clear(this.#looking);
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

  #lookLater(): void {
    if (this.#isClosed || this.#takenOver.size === 0) return;
    this.#looking ??= clock
      .setTimeout(() => {
        this.#looking = undefined;
        this.#markUnwritten()
          .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'hub.taken_over_not_compared'))
          .finally(() => this.#lookLater());
      }, LOOK_EVERY_MS)
      .unref();
  }

  /** A node that is alive and could not write corrects this as soon as it hears of it. */
  async #markUnwritten(): Promise<void> {
    const { registry, bus } = this.#parts;
    const before = clock.monotonic() - WRITTEN_AFTER_MS;
    const taken = [...this.#takenOver].filter(([, { at }]) => at <= before);
    const deviceIds = taken.map(([deviceId]) => deviceId).filter((id) => registry.get(id) === undefined);
    if (deviceIds.length > 0) await this.#mark({ of: bus.nodeId, deviceIds });
    for (const [deviceId, claim] of taken) {
      if (this.#takenOver.get(deviceId) === claim) this.#takenOver.delete(deviceId);
    }
  }

  async #mark(nodes: Parameters<DeviceStore['markLost']>[0]): Promise<void> {
    const { store, registry, feed } = this.#parts;
    for (const { deviceId, presence, epoch } of await store.markLost(nodes)) {
      const actor = registry.get(deviceId);
      // The device has reconnected here, which is not written yet.
      if (actor?.countsAsConnected === true) actor.republish();
      // The node that has it now must say so, whether or not it shows the device.
      else {
        // Dashboards know the newer claim that was not written.
        const shown = Math.max(epoch, this.#takenOver.get(deviceId)?.epoch ?? 0);
        feed.changed(deviceId, { presence }, { epoch: shown, isForAll: true });
      }
    }
  }
}
