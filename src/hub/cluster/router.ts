import { clock } from '../../clock.ts';
import { newId } from '../../platform/ids.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import { type CommandType, COMMANDS, rowSchema, type TerminalControl } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { DECOMMISSIONED } from '../device/actor-messages.ts';
import {
  timeoutOf,
  type LiveQuery,
  type LiveQueryFailure,
  type LiveQueryOutcome,
} from '../device/live-query.ts';
import type { Directory, Owner } from './directory.ts';
import { DeviceMessage, type DeviceNotice, type HubMessage, type QueryFrame } from './messages.ts';

interface RemoteQuery {
  nodeId: string;
  frame: QueryFrame;
  onRows(rows: unknown[]): void;
  settle(outcome: LiveQueryOutcome): void;
}

/** Live queries of this node to devices that other nodes own, until they are answered. */
export class RemoteQueries {
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  readonly #open = new Map<string, RemoteQuery & { rowsReceived: number }>();

  constructor(bus: NodeBus<HubMessage>, log: Logger) {
    this.#bus = bus;
    this.#log = log;
  }

  get size(): number {
    return this.#open.size;
  }

  send(query: RemoteQuery): void {
    const { frame, nodeId } = query;
    this.#open.set(frame.id, { ...query, rowsReceived: 0 });
    this.#bus.send(nodeId, frame).then(
      (delivered) => {
        if (!delivered) this.#settle(frame.id, { ok: false, reason: 'offline' });
      },
      () => this.#settle(frame.id, { ok: false, reason: 'unavailable' }),
    );
  }

  /** Sends a message to the terminal that an open query views. */
  control(control: TerminalControl): void {
    const query = this.#open.get(control.id);
    if (query === undefined) return;
    const { nodeId, frame } = query;
    this.#bus
      .send(nodeId, { kind: 'terminal', deviceId: frame.deviceId, control })
      .catch((error: unknown) => {
        this.#log.warn({ err: error, to: nodeId }, 'hub.bus_send_failed');
        // Input would be missing, so the viewer has to come back and see what has arrived.
        this.cancel(control.id, { reason: 'unavailable' });
      });
  }

  /** Cancels the query on the device as well. */
  cancel(id: string, failure: LiveQueryFailure, outcome: LiveQueryFailure = failure): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    const { nodeId, frame } = query;
    this.#bus
      .send(nodeId, { kind: 'cancel', id, deviceId: frame.deviceId, failure })
      .catch((error: unknown) => this.#log.warn({ err: error, to: nodeId }, 'hub.bus_send_failed'));
    this.#settle(id, { ok: false, ...outcome });
  }

  /** Cancels all queries: their answers would have no receiver. */
  close(): void {
    for (const id of this.#open.keys()) this.cancel(id, { reason: 'cancelled' }, { reason: 'node_lost' });
  }

  rows(from: string, id: string, rows: unknown[]): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    const parsed = rowSchema(query.frame.type)?.array().safeParse(rows);
    if (parsed?.success !== true) return this.#refuse(from, id);
    query.rowsReceived += rows.length;
    query.onRows(parsed.data);
  }

  /** @param rowCount  how many rows the owner has sent; undefined if it does not say */
  answer(from: string, id: string, output: unknown, rowCount?: number): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    // Redis counts a subscriber whose connection is broken as a receiver, so the owner cannot know that rows were lost.
    if (rowCount !== undefined && rowCount !== query.rowsReceived) {
      return this.#settle(id, { ok: false, reason: 'unavailable' });
    }
    const parsed = COMMANDS[query.frame.type].output.safeParse(output);
    if (parsed.success) this.#settle(id, { ok: true, output: parsed.data });
    else this.#refuse(from, id);
  }

  failure(id: string, failure: LiveQueryFailure): void {
    this.#settle(id, { ok: false, ...failure });
  }

  nodeLost(nodeId: string): void {
    for (const [id, query] of this.#open) {
      if (query.nodeId === nodeId) this.#settle(id, { ok: false, reason: 'node_lost' });
    }
  }

  /** The owner parses what the agent sends, so only a faulty or foreign node sends something else. */
  #refuse(from: string, id: string): void {
    this.#log.warn({ from }, 'hub.bus_message_refused');
    this.cancel(id, { reason: 'cancelled' }, { reason: 'unavailable' });
  }

  #settle(id: string, outcome: LiveQueryOutcome): void {
    const query = this.#open.get(id);
    this.#open.delete(id);
    query?.settle(outcome);
  }
}

/** An answer that cannot be delivered is retried for as long as its recipient may wait. */
const REPLY_ATTEMPTS = 60;
const REPLY_RETRY_MS = 500;

/** Runs live queries on the devices of this node, for this node and for others. */
class QueryResponder {
  readonly #registry: ActorRegistry;
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  #isClosed = false;

  constructor(parts: { registry: ActorRegistry; bus: NodeBus<HubMessage>; log: Logger }) {
    this.#registry = parts.registry;
    this.#bus = parts.bus;
    this.#log = parts.log;
  }

  run(
    frame: QueryFrame,
    onRows: (rows: unknown[]) => void,
    settle: (outcome: LiveQueryOutcome) => void,
  ): void {
    const actor = this.#registry.get(frame.deviceId);
    if (actor === undefined) return settle({ ok: false, reason: 'offline' });
    const { id, type, payload, deadline, maxRows } = frame;
    if (!actor.post({ kind: 'query', query: { id, type, payload, deadline, maxRows, onRows, settle } })) {
      settle({ ok: false, reason: actor.state === 'gone' ? 'offline' : 'busy' });
    }
  }

  /** Runs a query for another node and sends it the rows and the answer. */
  runFor(nodeId: string, received: QueryFrame): void {
    const leftMs = received.leftMs ?? Math.max(0, received.deadline - clock.now());
    const frame = { ...received, deadline: clock.now() + leftMs };
    const timer = clock.setTimeout(
      () => this.#registry.get(frame.deviceId)?.cancelQuery(frame.id, { reason: 'timeout' }),
      leftMs,
    );
    const { id } = frame;
    // An answer whose rows were lost on the way must not count as complete.
    let isComplete = true;
    let rowCount = 0;
    this.run(
      frame,
      (rows) => {
        rowCount += rows.length;
        void this.#send(nodeId, { kind: 'rows', id, rows }).then((delivered) => (isComplete &&= delivered));
      },
      (outcome) => {
        clock.clear(timer);
        if (!outcome.ok) this.#answer(nodeId, () => ({ kind: 'failure', id, failure: outcome }));
        else {
          this.#answer(nodeId, () =>
            isComplete
              ? { kind: 'answer', id, output: outcome.output, rowCount }
              : { kind: 'failure', id, failure: { reason: 'unavailable' } },
          );
        }
      },
    );
  }

  close(): void {
    this.#isClosed = true;
  }

  #answer(to: string, message: () => HubMessage, attempt = 1): void {
    void this.#send(to, message()).then((delivered) => {
      if (delivered || this.#isClosed || attempt >= REPLY_ATTEMPTS) return;
      clock.setTimeout(() => this.#answer(to, message, attempt + 1), REPLY_RETRY_MS).unref();
    });
  }

  /** Resolves to whether the message has reached the node. */
  #send(to: string, message: HubMessage): Promise<boolean> {
    return this.#bus.send(to, message).catch((error: unknown) => {
      this.#log.warn({ err: error, to }, 'hub.bus_send_failed');
      return false;
    });
  }
}

/** While the bus is unavailable, a notice is retried for about a quarter of an hour. */
const ATTEMPTS = 100;
const RETRY_MS = 1000;
const RETRY_MAX_MS = 10_000;

/** Sends notices to the nodes that own devices. A device that no node owns learns what it needs when it connects. */
class OwnerNotifier {
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
  readonly #onTakenOver: (deviceId: string, epoch: number) => void;
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
    /** Another node has claimed a device that this one had. */
    onTakenOver?: (deviceId: string, epoch: number) => void;
  }) {
    this.#registry = parts.registry;
    this.#directory = parts.directory;
    this.#nodeId = parts.bus.nodeId;
    this.#log = parts.log;
    this.#onWork = parts.onWork;
    this.#onTakenOver = parts.onTakenOver ?? (() => {});
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
      query.onRoute?.((message) => {
        const control = { ...message, id: frame.id };
        if (owner === undefined) this.#registry.get(deviceId)?.controlTerminal(control);
        else this.#remote.control(control);
      });
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
        return this.#remote.answer(from, message.id, message.output, message.rowCount);
      case 'failure':
        return this.#remote.failure(message.id, message.failure);
      case 'terminal':
        this.#registry.get(message.deviceId)?.controlTerminal(message.control);
        return;
      case 'superseded':
        this.#onTakenOver(message.deviceId, message.epoch);
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
