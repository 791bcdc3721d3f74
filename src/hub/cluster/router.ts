import { clock } from '../../clock.ts';
import { newId } from '../../platform/ids.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { CommandType } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { DECOMMISSIONED } from '../device/reconnect-notices.ts';
import {
  timeoutOf,
  type LiveQuery,
  type LiveQueryFailure,
  type LiveQueryOutcome,
} from '../device/live-query.ts';
import type { Directory, Owner } from './directory.ts';
import { DeviceMessage, type DeviceNotice, type HubMessage, type QueryFrame } from './messages.ts';
import { OwnerNotifier } from './owner-notifier.ts';
import { QueryResponder } from './query-responder.ts';
import { RemoteQueries } from './remote-queries.ts';

const NO_ROWS_LIMIT = 100_000;
/** How long after the deadline a node waits for the owner's own time-out to arrive. */
const TRANSIT_MS = 500;

/** Brings queries and notices to the node that owns the device. A device that no node owns is offline at once. */
export class Router {
  readonly #registry: ActorRegistry;
  readonly #directory: Directory;
  readonly #nodeId: string;
  readonly #log: Logger;
  readonly #onWork: (deviceId: string) => void;
  readonly #remote: RemoteQueries;
  readonly #responder: QueryResponder;
  readonly #owners: OwnerNotifier;
  #isClosed = false;

  constructor(parts: {
    registry: ActorRegistry;
    directory: Directory;
    bus: NodeBus<HubMessage>;
    log: Logger;
    /** There is new work for a device of this node. */
    onWork: (deviceId: string) => void;
  }) {
    this.#registry = parts.registry;
    this.#directory = parts.directory;
    this.#nodeId = parts.bus.nodeId;
    this.#log = parts.log;
    this.#onWork = parts.onWork;
    this.#remote = new RemoteQueries(parts.bus, parts.log);
    this.#responder = new QueryResponder(parts);
    this.#owners = new OwnerNotifier(parts);
    parts.bus.onNodeLost((nodeId) => this.#remote.nodeLost(nodeId));
  }

  /** The number of unanswered queries to devices on other nodes. */
  get remoteQueries(): number {
    return this.#remote.size;
  }

  close(): void {
    this.#isClosed = true;
    this.#remote.close();
    this.#responder.close();
    this.#owners.close();
  }

  async query<T extends CommandType>(deviceId: string, query: LiveQuery<T>): Promise<LiveQueryOutcome<T>> {
    const { signal } = query;
    const isCancelled = () => signal?.aborted === true;
    if (isCancelled()) return { ok: false, reason: 'cancelled' };
    if (this.#isClosed) return { ok: false, reason: 'node_lost' };
    const timeoutMs = timeoutOf(query);
    const startedAt = clock.monotonic();
    const frame: QueryFrame = {
      kind: 'ask',
      id: newId(),
      deviceId,
      type: query.type,
      payload: query.payload,
      deadline: clock.now() + timeoutMs,
      leftMs: timeoutMs,
      maxRows: query.maxRows ?? NO_ROWS_LIMIT,
    };
    const isLocal = this.#registry.get(deviceId) !== undefined;
    let owner: Owner | undefined;
    try {
      owner = isLocal ? undefined : await this.#directory.find(deviceId);
    } catch (error) {
      this.#log.warn({ err: error }, 'hub.directory_away');
      return { ok: false, reason: 'unavailable' };
    }
    if (!isLocal && (owner === undefined || owner.nodeId === this.#nodeId)) {
      return { ok: false, reason: 'offline' };
    }
    // An abort during the look-up has called no listener.
    if (isCancelled()) return { ok: false, reason: 'cancelled' };
    // The look-up counts towards the time limit.
    const leftMs = Math.max(0, timeoutMs - (clock.monotonic() - startedAt));
    frame.leftMs = leftMs;
    return new Promise((resolve) => {
      const cancel = (failure: LiveQueryFailure) => {
        if (owner === undefined) this.#registry.get(deviceId)?.cancelQuery(frame.id, failure);
        else this.#remote.cancel(frame.id, failure);
      };
      const timer = clock.setTimeout(
        () => cancel({ reason: 'timeout' }),
        owner === undefined ? leftMs : leftMs + TRANSIT_MS,
      );
      const onAbort = () => cancel({ reason: 'cancelled' });
      signal?.addEventListener('abort', onAbort, { once: true });
      // Rows and output were parsed by the schemas of this query's type, which the compiler cannot follow.
      const onRows = (rows: unknown[]) => query.onRows?.(rows as never[]);
      const settle = (outcome: LiveQueryOutcome) => {
        clock.clear(timer);
        signal?.removeEventListener('abort', onAbort);
        resolve(outcome as LiveQueryOutcome<T>);
      };
      if (owner === undefined) this.#responder.run(frame, onRows, settle);
      else this.#remote.send({ nodeId: owner.nodeId, frame, onRows, settle });
    });
  }

  /** Acts on a notice here when this node owns the device, and sends it to the owner otherwise. */
  notify(notice: DeviceNotice): void {
    if (this.#registry.get(notice.deviceId) === undefined) this.notifyOwner(notice);
    else this.#act(notice);
  }

  /** Sends a notice to the node that the directory names as the owner, with retries. */
  notifyOwner(notice: DeviceNotice): void {
    this.#owners.notify(notice);
  }

  /** Handles a message from another node. False when it is none that concerns a device. */
  receive(from: string, raw: unknown): boolean {
    const parsed = DeviceMessage.safeParse(raw);
    if (parsed.success) this.#handle(from, parsed.data);
    return parsed.success;
  }

  #handle(from: string, message: DeviceMessage): void {
    switch (message.kind) {
      case 'ask':
        return this.#responder.runFor(from, message);
      case 'cancel':
        this.#registry.get(message.deviceId)?.cancelQuery(message.id, message.failure);
        return;
      case 'rows':
        return this.#remote.rows(from, message.id, message.rows);
      case 'answer':
        return this.#remote.answer(from, message.id, message.output);
      case 'failure':
        return this.#remote.failure(message.id, message.failure);
      case 'superseded':
        this.#registry.get(message.deviceId)?.superseded(message.epoch);
        return;
      default:
        return this.#act(message);
    }
  }

  #act(notice: DeviceNotice): void {
    const actor = this.#registry.get(notice.deviceId);
    switch (notice.kind) {
      case 'work':
        return this.#onWork(notice.deviceId);
      case 'cancel_command':
        return actor?.cancelCommand(notice.id);
      case 'disconnect':
        return actor?.stop(undefined, 'socket_closed');
      case 'decommissioned':
        return actor?.stop(DECOMMISSIONED, 'socket_closed');
      default:
        return notice satisfies never;
    }
  }
}
