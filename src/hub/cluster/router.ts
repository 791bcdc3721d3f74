import { z } from 'zod';
import { COMMAND_TYPES, type CommandType } from '../../protocol/index.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import { newId } from '../../platform/ids.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { timeoutOf, type AskFailure, type AskOutcome, type Question } from '../device/live-query.ts';
import { FeedEvent } from '../feed/cluster-feed.ts';
import type { Directory, Holder } from './directory.ts';

/** What nodes say to each other. Parsed on arrival: the bus is not trusted. */
const AskFrame = z.object({
  kind: z.literal('ask'),
  id: z.string(),
  deviceId: z.string(),
  type: z.enum(COMMAND_TYPES),
  payload: z.unknown(),
  deadline: z.number(),
  /** What is left until the deadline, for a node whose clock differs. */
  leftMs: z.number().optional(),
  maxRows: z.number(),
});
const Failure = z.union([
  z.object({
    reason: z.enum([
      'offline',
      'disconnected',
      'busy',
      'timeout',
      'cancelled',
      'node_lost',
      'unavailable',
      'capability_missing',
    ]),
  }),
  z.object({ reason: z.literal('agent'), code: z.string(), message: z.string() }),
]);
const HubMessage = z.discriminatedUnion('kind', [
  AskFrame,
  z.object({ kind: z.literal('rows'), id: z.string(), rows: z.array(z.unknown()) }),
  z.object({ kind: z.literal('answer'), id: z.string(), output: z.unknown() }),
  z.object({ kind: z.literal('failure'), id: z.string(), failure: Failure }),
  z.object({ kind: z.literal('cancel'), id: z.string(), deviceId: z.string(), failure: Failure }),
  z.object({ kind: z.literal('superseded'), deviceId: z.string(), epoch: z.number() }),
  z.object({ kind: z.literal('work'), deviceId: z.string() }),
  z.object({ kind: z.literal('disconnect'), deviceId: z.string() }),
  z.object({ kind: z.literal('decommissioned'), deviceId: z.string() }),
  z.object({ kind: z.literal('feed'), events: z.array(FeedEvent) }),
  z.object({ kind: z.literal('records_changed'), deviceIds: z.array(z.string()) }),
  z.object({ kind: z.literal('moved'), deviceIds: z.array(z.string()) }),
  z.object({ kind: z.literal('filter_changed'), filterId: z.string() }),
  z.object({ kind: z.literal('custom_field_changed'), orgId: z.string(), key: z.string() }),
  z.object({ kind: z.literal('missed') }),
  z.object({ kind: z.literal('cancel_command'), deviceId: z.string(), id: z.string() }),
]);
export type HubMessage = z.infer<typeof HubMessage>;
type AskFrame = z.infer<typeof AskFrame>;
/** What one node tells another without being asked, and the router only brings. */
export type Notice = Extract<
  HubMessage,
  {
    kind:
      | 'work'
      | 'disconnect'
      | 'decommissioned'
      | 'feed'
      | 'records_changed'
      | 'moved'
      | 'filter_changed'
      | 'custom_field_changed'
      | 'missed';
  }
>;

/** A holder that cannot be told, because the bus is away, is told again for about a quarter of an hour. */
const TELL_ATTEMPTS = 100;
const TELL_AGAIN_MS = 1000;
const TELL_AGAIN_MAX_MS = 10_000;
/** An answer that does not reach whoever asked, for as long as they may wait. */
const ANSWER_ATTEMPTS = 60;
const ANSWER_AGAIN_MS = 500;

interface Waiting {
  nodeId: string;
  deviceId: string;
  onRows(rows: unknown[]): void;
  settle(outcome: AskOutcome): void;
}

const NO_ROWS_LIMIT = 100_000;
/** How much longer than the deadline an asker waits for the holder's own time-out to come back. */
const TRAVEL_MS = 500;

/** Brings a question to the node that holds the device: here, elsewhere, or nowhere, which is said at once. */
export class Router {
  readonly #registry: ActorRegistry;
  readonly #directory: Directory;
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  readonly #onNotice: (notice: Notice) => void;
  readonly #remote = new Map<string, Waiting>();
  #closed = false;

  constructor(parts: {
    registry: ActorRegistry;
    directory: Directory;
    bus: NodeBus<HubMessage>;
    log: Logger;
    onNotice: (notice: Notice) => void;
  }) {
    this.#registry = parts.registry;
    this.#onNotice = parts.onNotice;
    this.#directory = parts.directory;
    this.#bus = parts.bus;
    this.#log = parts.log;
    parts.bus.onMessage((from, message) => this.#receive(from, message));
    parts.bus.onNodeLost((nodeId) => this.#nodeLost(nodeId));
  }

  /** Questions to devices on other nodes that are not answered yet. */
  get waiting(): number {
    return this.#remote.size;
  }

  /** Ends this node's questions to others: their answers would come to nobody. */
  close(): void {
    this.#closed = true;
    for (const [id, { nodeId, deviceId }] of this.#remote) {
      this.#say(nodeId, { kind: 'cancel', id, deviceId, failure: { reason: 'cancelled' } });
      this.#settleRemote(id, { ok: false, reason: 'node_lost' });
    }
  }

  async ask<T extends CommandType>(deviceId: string, question: Question<T>): Promise<AskOutcome<T>> {
    const { signal } = question;
    const cancelled = () => signal?.aborted === true;
    if (cancelled()) return { ok: false, reason: 'cancelled' };
    if (this.#closed) return { ok: false, reason: 'node_lost' };
    const timeoutMs = timeoutOf(question);
    const askedAt = performance.now();
    const frame: AskFrame = {
      kind: 'ask',
      id: newId(),
      deviceId,
      type: question.type,
      payload: question.payload,
      deadline: Date.now() + timeoutMs,
      leftMs: timeoutMs,
      maxRows: question.maxRows ?? NO_ROWS_LIMIT,
    };
    const onRows = (rows: unknown[]) => question.onRows?.(rows as never[]);
    const local = this.#registry.get(deviceId);
    let holder: Holder | undefined;
    try {
      holder = local === undefined ? await this.#directory.find(deviceId) : undefined;
    } catch (error) {
      this.#log.warn({ err: error }, 'hub.directory_away');
      return { ok: false, reason: 'unavailable' };
    }
    if (local === undefined && (holder === undefined || holder.nodeId === this.#bus.nodeId)) {
      return { ok: false, reason: 'offline' };
    }
    // The holder was looked up meanwhile; an abort that has been tells no listener.
    if (cancelled()) return { ok: false, reason: 'cancelled' };
    // Looking up the holder was part of the time.
    const leftMs = Math.max(0, timeoutMs - (performance.now() - askedAt));
    frame.leftMs = leftMs;
    return new Promise((resolve) => {
      const cancel = (failure: AskFailure) => {
        if (holder === undefined) this.#registry.get(deviceId)?.cancel(frame.id, failure);
        else this.#cancelRemote(frame, holder.nodeId, failure);
      };
      const timer = setTimeout(
        () => cancel({ reason: 'timeout' }),
        holder === undefined ? leftMs : leftMs + TRAVEL_MS,
      );
      const onAbort = () => cancel({ reason: 'cancelled' });
      signal?.addEventListener('abort', onAbort, { once: true });
      const settle = (outcome: AskOutcome) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        // The actor parsed the output by the schema of this very type.
        resolve(outcome as AskOutcome<T>);
      };
      if (holder === undefined) this.#askHere(frame, onRows, settle);
      else this.#askThere(frame, holder.nodeId, onRows, settle);
    });
  }

  /** To the node that holds the device, here or elsewhere. One that is nowhere hears when it connects. */
  notify(notice: Extract<Notice, { deviceId: string }>): void {
    if (this.#registry.get(notice.deviceId) !== undefined) return this.#onNotice(notice);
    this.#tellHolder(notice.deviceId, notice);
  }

  cancelCommand(deviceId: string, id: string): void {
    const actor = this.#registry.get(deviceId);
    if (actor !== undefined) return actor.cancelCommand(id);
    this.#tellHolder(deviceId, { kind: 'cancel_command', deviceId, id });
  }

  #tellHolder(deviceId: string, message: HubMessage, attempt = 1): void {
    this.#directory
      .find(deviceId)
      .then(async (holder) => {
        if (holder !== undefined && holder.nodeId !== this.#bus.nodeId) {
          await this.#bus.send(holder.nodeId, message);
        }
      })
      .catch((error: unknown) => {
        // Once for each: the loss of Redis is told by itself.
        if (attempt === 1) this.#log.warn({ err: error, deviceId }, 'hub.holder_not_told');
        if (attempt >= TELL_ATTEMPTS || this.#closed) return;
        const againMs = Math.min(attempt * TELL_AGAIN_MS, TELL_AGAIN_MAX_MS);
        setTimeout(() => this.#tellHolder(deviceId, message, attempt + 1), againMs).unref();
      });
  }

  #askHere(frame: AskFrame, onRows: (rows: unknown[]) => void, settle: (outcome: AskOutcome) => void): void {
    const actor = this.#registry.get(frame.deviceId);
    if (actor === undefined) return settle({ ok: false, reason: 'offline' });
    const { id, type, payload, deadline, maxRows } = frame;
    if (!actor.tell({ kind: 'ask', ask: { id, type, payload, deadline, maxRows, onRows, settle } })) {
      settle({ ok: false, reason: actor.state === 'gone' ? 'offline' : 'busy' });
    }
  }

  #askThere(
    frame: AskFrame,
    nodeId: string,
    onRows: (rows: unknown[]) => void,
    settle: (outcome: AskOutcome) => void,
  ): void {
    this.#remote.set(frame.id, { nodeId, deviceId: frame.deviceId, onRows, settle });
    this.#bus.send(nodeId, frame).then(
      (delivered) => {
        if (!delivered) this.#settleRemote(frame.id, { ok: false, reason: 'offline' });
      },
      () => this.#settleRemote(frame.id, { ok: false, reason: 'unavailable' }),
    );
  }

  #cancelRemote(frame: AskFrame, nodeId: string, failure: AskFailure): void {
    if (!this.#remote.has(frame.id)) return;
    this.#say(nodeId, { kind: 'cancel', id: frame.id, deviceId: frame.deviceId, failure });
    this.#settleRemote(frame.id, { ok: false, ...failure });
  }

  #settleRemote(id: string, outcome: AskOutcome): void {
    const waiting = this.#remote.get(id);
    this.#remote.delete(id);
    waiting?.settle(outcome);
  }

  #receive(from: string, raw: unknown): void {
    const parsed = HubMessage.safeParse(raw);
    if (!parsed.success) {
      this.#log.warn({ from }, 'hub.bus_message_refused');
      return;
    }
    const message = parsed.data;
    switch (message.kind) {
      case 'ask':
        return this.#answerFor(from, message);
      case 'cancel':
        this.#registry.get(message.deviceId)?.cancel(message.id, message.failure);
        return;
      case 'rows':
        this.#remote.get(message.id)?.onRows(message.rows);
        return;
      case 'answer':
        // Parsed by the schema of its command on the node that holds the device.
        return this.#settleRemote(message.id, { ok: true, output: message.output as never });
      case 'failure':
        return this.#settleRemote(message.id, { ok: false, ...message.failure });
      case 'superseded':
        this.#registry.get(message.deviceId)?.superseded(message.epoch);
        return;
      case 'work':
      case 'disconnect':
      case 'decommissioned':
      case 'feed':
      case 'records_changed':
      case 'moved':
      case 'filter_changed':
      case 'custom_field_changed':
      case 'missed':
        return this.#onNotice(message);
      case 'cancel_command':
        this.#registry.get(message.deviceId)?.cancelCommand(message.id);
        return;
      default:
        return message satisfies never;
    }
  }

  #answerFor(asker: string, asked: AskFrame): void {
    const leftMs = asked.leftMs ?? Math.max(0, asked.deadline - Date.now());
    const frame = { ...asked, deadline: Date.now() + leftMs };
    const timer = setTimeout(
      () => this.#registry.get(frame.deviceId)?.cancel(frame.id, { reason: 'timeout' }),
      leftMs,
    );
    const { id } = frame;
    // What came without some of its rows must not pass for the whole answer.
    let isWhole = true;
    this.#askHere(
      frame,
      (rows) => {
        void this.#send(asker, { kind: 'rows', id, rows }).then((delivered) => (isWhole &&= delivered));
      },
      (outcome) => {
        clearTimeout(timer);
        if (!outcome.ok) this.#answer(asker, () => ({ kind: 'failure', id, failure: outcome }));
        else {
          this.#answer(asker, () =>
            isWhole
              ? { kind: 'answer', id, output: outcome.output }
              : { kind: 'failure', id, failure: { reason: 'unavailable' } },
          );
        }
      },
    );
  }

  /** Somebody waits for it: where the bus is away, or they do not hear just now, it is said again. */
  #answer(to: string, message: () => HubMessage, attempt = 1): void {
    void this.#send(to, message()).then((delivered) => {
      if (delivered || this.#closed || attempt >= ANSWER_ATTEMPTS) return;
      setTimeout(() => this.#answer(to, message, attempt + 1), ANSWER_AGAIN_MS).unref();
    });
  }

  #say(to: string, message: HubMessage): void {
    void this.#send(to, message);
  }

  /** Whether it has reached the node. */
  #send(to: string, message: HubMessage): Promise<boolean> {
    return this.#bus.send(to, message).catch((error: unknown) => {
      this.#log.warn({ err: error, to }, 'hub.bus_send_failed');
      return false;
    });
  }

  #nodeLost(nodeId: string): void {
    for (const [id, waiting] of this.#remote) {
      if (waiting.nodeId === nodeId) this.#settleRemote(id, { ok: false, reason: 'node_lost' });
    }
  }
}
