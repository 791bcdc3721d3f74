import type { z } from 'zod';
import type { NodeBus } from './node-bus.ts';

/** A kind of event that nodes announce to each other. The part that owns the event declares its topic. */
export interface Topic<T extends object> {
  /** Unique among all topics and all other messages on the bus; also the name other versions of the server know. */
  readonly name: string;
  /** Parses an event on arrival, because the bus is not trusted. */
  readonly schema: z.ZodType<T>;
}

export const topic = <T extends object>(name: string, schema: z.ZodType<T>): Topic<T> => ({ name, schema });

/** An event on the bus: the fields of its payload beside the name of its topic. */
export interface TopicMessage {
  kind: string;
  [field: string]: unknown;
}

/** The nodes that an event is sent to: every other one, or those that are named. */
export type Recipients = 'all' | ReadonlySet<string>;

type Handle<T> = (payload: T, from: string | undefined) => void;
type Deliver = (payload: unknown, from: string | undefined) => boolean;

/** Publish and subscribe across all nodes. Events are announcements without an answer. */
export class ClusterEvents {
  readonly #bus: Pick<NodeBus<TopicMessage>, 'send' | 'broadcast'> | undefined;
  readonly #onUndelivered: () => void;
  readonly #subscriptions = new Map<string, Deliver[]>();
  readonly #localSubscriptions = new Map<string, Deliver[]>();

  /**
   * @param bus            leads to the other nodes; left out when there are none
   * @param onUndelivered  called when an event could not be sent to the other nodes
   */
  constructor(bus: Pick<NodeBus<TopicMessage>, 'send' | 'broadcast'> | undefined, onUndelivered: () => void) {
    this.#bus = bus;
    this.#onUndelivered = onUndelivered;
  }

  /** Calls the handler for every event of the topic, from this node (then `from` is undefined) or another. */
  subscribe<T extends object>(topic: Topic<T>, handle: Handle<T>): void {
    add(this.#subscriptions, topic, handle);
  }

  /** Calls the handler only for events that this node publishes, so that one node does the work for all. */
  onPublished<T extends object>(topic: Topic<T>, handle: Handle<T>): void {
    add(this.#localSubscriptions, topic, handle);
  }

  /**
   * Announces an event to this node first, and then to all others or to those that are named.
   * @param onUndelivered  called when it could not be sent to the other nodes
   */
  publish<T extends object>(
    topic: Topic<T>,
    payload: T,
    onUndelivered?: () => void,
    recipients: Recipients = 'all',
  ): void {
    for (const deliver of this.#localSubscriptions.get(topic.name) ?? []) deliver(payload, undefined);
    for (const deliver of this.#subscriptions.get(topic.name) ?? []) deliver(payload, undefined);
    this.sendTo(recipients, topic, payload, onUndelivered);
  }

  /** Announces an event to the other nodes only. */
  broadcast<T extends object>(topic: Topic<T>, payload: T, onUndelivered?: () => void): void {
    this.sendTo('all', topic, payload, onUndelivered);
  }

  /** Announces an event only to other nodes that are named. One that is gone is no failure. */
  sendTo<T extends object>(
    recipients: Recipients,
    topic: Topic<T>,
    payload: T,
    onUndelivered?: () => void,
  ): void {
    const bus = this.#bus;
    if (bus === undefined) return;
    const message = { ...payload, kind: topic.name };
    const sent =
      recipients === 'all'
        ? bus.broadcast(message)
        : Promise.all([...recipients].map((nodeId) => bus.send(nodeId, message)));
    sent.catch(() => {
      this.#onUndelivered();
      onUndelivered?.();
    });
  }

  /** Hands on a message from another node. False when it is not a valid event of a topic that has subscribers here. */
  receive(message: unknown, from: string): boolean {
    if (typeof message !== 'object' || message === null || !('kind' in message)) return false;
    const subscriptions =
      typeof message.kind === 'string' ? this.#subscriptions.get(message.kind) : undefined;
    return subscriptions?.map((deliver) => deliver(message, from)).every(Boolean) ?? false;
  }
}

function add<T extends object>(to: Map<string, Deliver[]>, topic: Topic<T>, handle: Handle<T>): void {
  const deliver: Deliver = (payload, from) => {
    const parsed = topic.schema.safeParse(payload);
    if (parsed.success) handle(parsed.data, from);
    return parsed.success;
  };
  to.set(topic.name, [...(to.get(topic.name) ?? []), deliver]);
}
