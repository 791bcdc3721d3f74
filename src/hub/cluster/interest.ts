import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import { type ClusterEvents, type Recipients, topic } from '../../platform/cluster/cluster-events.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Caller } from '../../platform/context.ts';
import type { HubMessage } from './messages.ts';

/**
 * Live changes go only to nodes that show them to a client. Each node announces the organizations and partners whose
 * changes it needs; a node that announced nothing, or not lately, is sent everything (docs/decisions/cluster.md).
 */

/** The streams of changes that a node can need: of devices, and of jobs. */
const STREAMS = ['devices', 'jobs'] as const;
type Stream = (typeof STREAMS)[number];

/** The tenants of a change. */
export interface Tenant {
  orgId: string;
  partnerId: string;
}

/** The key of a subscription to all tenants. The other keys are ids of partners and organizations. */
const EVERYTHING = '*';
/** A node that needs more than so many keys is sent everything. */
const KEYS_MAX = 1000;

/** The keys that cover a subscription of the caller, to one organization or to all that the caller sees. */
export function interestKeys(
  caller: Pick<Caller, 'scope' | 'orgAccess' | 'orgIds' | 'partnerId'>,
  orgId?: string,
): string[] {
  if (orgId !== undefined) return [orgId];
  if (caller.scope === 'system') return [EVERYTHING];
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return [caller.partnerId];
  return [...caller.orgIds];
}

/** The keys under which a change is found. */
export const tenantKeys = ({ orgId, partnerId }: Tenant): string[] => [EVERYTHING, partnerId, orgId];

/** Whether the keys cover the tenant. Without a tenant any key does, because the change may concern it. */
function covers(keys: { readonly size: number; has(key: string): boolean }, tenant: Tenant | undefined) {
  if (keys.size === 0) return false;
  return tenant === undefined || keys.has(EVERYTHING) || keys.has(tenant.orgId) || keys.has(tenant.partnerId);
}

/** What the subscriptions of this node need of one stream. */
export class OwnInterest {
  readonly #counts = new Map<string, number>();
  #onAdded: (key: string) => void = () => {};

  /** Returns the function that takes the keys back. */
  add(keys: readonly string[]): () => void {
    for (const key of keys) {
      const count = this.#counts.get(key) ?? 0;
      this.#counts.set(key, count + 1);
      if (count === 0) this.#onAdded(key);
    }
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      for (const key of keys) {
        const count = this.#counts.get(key) ?? 0;
        if (count > 1) this.#counts.set(key, count - 1);
        else this.#counts.delete(key);
      }
    };
  }

  covers(tenant: Tenant | undefined): boolean {
    return covers(this.#counts, tenant);
  }

  keys(): string[] {
    return this.#counts.size > KEYS_MAX ? [EVERYTHING] : [...this.#counts.keys()];
  }

  /** Calls back with each key that was not needed before. */
  onAdded(callback: (key: string) => void): void {
    this.#onAdded = callback;
  }
}

/** A later release may announce streams that this one does not know, and the other way round. */
const Keys = z.array(z.string()).max(KEYS_MAX).default([EVERYTHING]);

/** What a node needs. It replaces what the node has announced before. */
const INTEREST = topic(
  'interest',
  z.object({
    devices: Keys,
    jobs: Keys,
    /** Set by a node that does not know what the others need. */
    asks: z.boolean().optional(),
  }),
);

/** The nodes are compared with those that have announced something, so a node of an earlier release is noticed. */
const CHECK_MS = 1000;
const ANNOUNCE_MS = 10_000;
/** A node whose announcements do not arrive any more is sent everything. */
const BELIEVED_MS = 3.5 * ANNOUNCE_MS;

type Keyed = Record<Stream, ReadonlySet<string>>;

/**
 * A node needs more than before. It has missed the changes of the last moments.
 * @param isNew  whether it was not sent changes of the tenant before; without a tenant, whether it was sent none at all
 */
type OnWidened = (nodeId: string, isNew: (tenant: Tenant | undefined) => boolean) => void;

interface Parts {
  bus: Pick<NodeBus<HubMessage>, 'nodeId' | 'onNodeLost'>;
  events: Pick<ClusterEvents, 'broadcast' | 'sendTo' | 'subscribe'>;
  /** The live nodes, or `undefined` while they are not known. Left out if every node announces what it needs. */
  nodes: (() => ReadonlySet<string> | undefined) | undefined;
  own: Record<Stream, OwnInterest>;
}

/** What each other node needs, and so which nodes are sent a change. */
export class ClusterInterest {
  readonly #parts: Parts;
  readonly #others = new Map<string, { keys: Keyed; heardAt: number }>();
  /** By stream and key, the nodes that need it. */
  #index: Record<Stream, Map<string, Set<string>>> = { devices: new Map(), jobs: new Map() };
  /** Live nodes that have announced nothing. */
  #silent: ReadonlySet<string> = new Set();
  /** While the live nodes are not known, all are sent everything. */
  #isCertain: boolean;
  #announced: Keyed = { devices: new Set(), jobs: new Set() };
  #announcedAt = Number.NEGATIVE_INFINITY;
  #isAnnouncing = false;
  #timer: Timer | undefined;
  readonly #onWidened: Record<Stream, OnWidened[]> = { devices: [], jobs: [] };

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#isCertain = parts.nodes === undefined;
    const { bus, events, own } = parts;
    events.subscribe(INTEREST, (announced, from) => {
      if (from !== undefined) this.#received(from, announced);
    });
    bus.onNodeLost((nodeId) => this.#forget(nodeId));
    for (const stream of STREAMS) own[stream].onAdded((key) => this.#needed(stream, key));
  }

  start(): void {
    this.#announce({ asks: true });
    this.#check();
    this.#timer = clock.setInterval(() => this.#check(), CHECK_MS).unref();
  }

  close(): void {
    clock.clear(this.#timer);
  }

  /** Announcements may have been missed: until the other nodes announce theirs again, they are sent everything. */
  returned(): void {
    this.#others.clear();
    this.#indexAnew();
    this.#isCertain = this.#parts.nodes === undefined;
    this.#announce({ asks: true });
  }

  /** Whether another node needs changes of the tenant. Without a tenant: whether one needs any. */
  isNeeded(stream: Stream, tenant: Tenant | undefined): boolean {
    return !this.#isCertain || this.#silent.size > 0 || covers(this.#index[stream], tenant);
  }

  /** The nodes that need changes of the tenant. Without a tenant: that need any. */
  recipients(stream: Stream, tenant: Tenant | undefined): Recipients {
    if (!this.#isCertain) return 'all';
    const index = this.#index[stream];
    const found = new Set(this.#silent);
    for (const key of tenant === undefined ? index.keys() : tenantKeys(tenant)) {
      for (const nodeId of index.get(key) ?? []) found.add(nodeId);
    }
    // One message to all costs less than one to each of many.
    return found.size * 2 > this.#others.size + this.#silent.size ? 'all' : found;
  }

  /** Calls back so that the node is sent what it has missed. */
  onWidened(stream: Stream, callback: OnWidened): void {
    this.#onWidened[stream].push(callback);
  }

  #needed(stream: Stream, key: string): void {
    const announced = this.#announced[stream];
    if (announced.has(key) || announced.has(EVERYTHING) || this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    // Together with the other keys of the subscription.
    queueMicrotask(() => this.#announce());
  }

  #announce(options: { asks?: true } = {}): void {
    this.#isAnnouncing = false;
    const keys = this.#ownKeys();
    this.#announced = { devices: new Set(keys.devices), jobs: new Set(keys.jobs) };
    this.#announcedAt = clock.monotonic();
    // If it does not arrive, the next one does, or the loss of the bus makes all nodes ask.
    this.#parts.events.broadcast(INTEREST, { ...keys, ...options });
  }

  #ownKeys(): Record<Stream, string[]> {
    const { devices, jobs } = this.#parts.own;
    return { devices: devices.keys(), jobs: jobs.keys() };
  }

  /** Keys that are not needed any more are left out of the next regular announcement: clients often come back. */
  #check(): void {
    const { nodes, bus } = this.#parts;
    const now = clock.monotonic();
    if (now - this.#announcedAt >= ANNOUNCE_MS) this.#announce();
    for (const [nodeId, { heardAt }] of this.#others) {
      if (now - heardAt > BELIEVED_MS) this.#forget(nodeId);
    }
    if (nodes === undefined) return;
    const alive = nodes();
    this.#isCertain = alive !== undefined;
    this.#silent = new Set(
      [...(alive ?? [])].filter((nodeId) => nodeId !== bus.nodeId && !this.#others.has(nodeId)),
    );
  }

  #received(from: string, { asks, ...announced }: z.infer<(typeof INTEREST)['schema']>): void {
    if (asks === true) this.#parts.events.sendTo(new Set([from]), INTEREST, this.#ownKeys());
    const before = this.#others.get(from)?.keys;
    const keys = { devices: new Set(announced.devices), jobs: new Set(announced.jobs) };
    this.#others.set(from, { keys, heardAt: clock.monotonic() });
    if (this.#silent.has(from)) this.#silent = without(this.#silent, from);
    if (before !== undefined && STREAMS.every((stream) => isSame(before[stream], keys[stream]))) return;
    this.#indexAnew();
    for (const stream of STREAMS) {
      const earlier = before?.[stream] ?? new Set();
      if ([...keys[stream]].every((key) => earlier.has(key)) || earlier.has(EVERYTHING)) continue;
      const isNew = (tenant: Tenant | undefined) =>
        tenant === undefined ? earlier.size === 0 : covers(keys[stream], tenant) && !covers(earlier, tenant);
      for (const callback of this.#onWidened[stream]) callback(from, isNew);
    }
  }

  #forget(nodeId: string): void {
    this.#silent = without(this.#silent, nodeId);
    if (this.#others.delete(nodeId)) this.#indexAnew();
  }

  #indexAnew(): void {
    this.#index = { devices: new Map(), jobs: new Map() };
    for (const [nodeId, { keys }] of this.#others) {
      for (const stream of STREAMS) {
        for (const key of keys[stream]) {
          const nodes = this.#index[stream].get(key) ?? new Set();
          this.#index[stream].set(key, nodes.add(nodeId));
        }
      }
    }
  }
}

const without = (set: ReadonlySet<string>, item: string) =>
  new Set([...set].filter((other) => other !== item));

const isSame = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
  a.size === b.size && [...a].every((key) => b.has(key));

/** Divides changes by the nodes that are sent them, and leaves out those that no node needs. Each part keeps the order. */
export function byRecipients<T>(
  changes: readonly T[],
  recipientsOf: (change: T) => Recipients,
): { recipients: Recipients; changes: T[] }[] {
  const parts = new Map<string, { recipients: Recipients; changes: T[] }>();
  for (const change of changes) {
    const recipients = recipientsOf(change);
    const key = recipients === 'all' ? EVERYTHING : [...recipients].sort().join(' ');
    if (key === '') continue;
    const part = parts.get(key);
    if (part === undefined) parts.set(key, { recipients, changes: [change] });
    else part.changes.push(change);
  }
  return [...parts.values()];
}
