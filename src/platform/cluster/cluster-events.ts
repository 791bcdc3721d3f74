import type { z } from 'zod';

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

type Deliver = (payload: unknown) => boolean;

/** Publish and subscribe across all nodes. Events are announcements without an answer. */
export class ClusterEvents {
  readonly #broadcast: ((message: TopicMessage) => Promise<void>) | undefined;
  readonly #onUndelivered: () => void;
  readonly #subscriptions = new Map<string, Deliver[]>();
  readonly #localSubscriptions = new Map<string, Deliver[]>();

  /**
   * @param broadcast      sends a message to all other nodes; left out when there are none
   * @param onUndelivered  called when an event could not be sent to the other nodes
   */
  constructor(broadcast: ((message: TopicMessage) => Promise<void>) | undefined, onUndelivered: () => void) {
    this.#broadcast = broadcast;
    this.#onUndelivered = onUndelivered;
  }

  /** Calls the handler for every event of the topic, from this node or another. */
  subscribe<T extends object>(topic: Topic<T>, handle: (payload: T) => void): void {
    add(this.#subscriptions, topic, handle);
  }

  /** Calls the handler only for events that this node publishes, so that one node does the work for all. */
  onPublished<T extends object>(topic: Topic<T>, handle: (payload: T) => void): void {
    add(this.#localSubscriptions, topic, handle);
  }

  /**
   * Announces an event to all nodes, this one first.
   * @param onUndelivered  called when it could not be sent to the other nodes
   */
  publish<T extends object>(topic: Topic<T>, payload: T, onUndelivered?: () => void): void {
    for (const deliver of this.#localSubscriptions.get(topic.name) ?? []) deliver(payload);
    for (const deliver of this.#subscriptions.get(topic.name) ?? []) deliver(payload);
    this.broadcast(topic, payload, onUndelivered);
  }

  /** Announces an event to the other nodes only. */
  broadcast<T extends object>(topic: Topic<T>, payload: T, onUndelivered?: () => void): void {
    this.#broadcast?.({ ...payload, kind: topic.name }).catch(() => {
      this.#onUndelivered();
      onUndelivered?.();
    });
  }

  /** Hands on a message from another node. False when it is not a valid event of a topic that has subscribers here. */
  receive(message: unknown): boolean {
    if (typeof message !== 'object' || message === null || !('kind' in message)) return false;
    const subscriptions =
      typeof message.kind === 'string' ? this.#subscriptions.get(message.kind) : undefined;
    return subscriptions?.map((deliver) => deliver(message)).every(Boolean) ?? false;
  }
}

function add<T extends object>(
  to: Map<string, Deliver[]>,
  topic: Topic<T>,
  handle: (payload: T) => void,
): void {
  const deliver: Deliver = (payload) => {
    const parsed = topic.schema.safeParse(payload);
    if (parsed.success) handle(parsed.data);
    return parsed.success;
  };
  to.set(topic.name, [...(to.get(topic.name) ?? []), deliver]);
}
