import { clock, type Timer } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import { z } from 'zod';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { DECOMMISSIONED } from '../device/actor-messages.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { AgentCredentials } from '../ports.ts';

/** The channel on which the database announces changes of rights and tenants (migrations/0002_tenancy.sql). */
export const ACCESS_CHANNEL = 'muster_access';

/** The announcement that a row has changed which decides about access. */
export const AccessChange = z.object({
  kind: z.enum(['person', 'session', 'role', 'api_key', 'partner', 'organization', 'agent']),
  id: z.uuid(),
  /** For an organization, the partner it belongs to. */
  partnerId: z.uuid().nullable(),
});
export type AccessChange = z.infer<typeof AccessChange>;

/** Parses an announcement. Returns `undefined` for one that this version does not know. */
export function readAccessChange(payload: string): AccessChange | undefined {
  try {
    return AccessChange.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** The kinds of changes for a caller: the rights, or the devices within the same rights. */
interface Concern {
  rights: boolean;
  devices: boolean;
}

const NONE: Concern = { rights: false, devices: false };
const RIGHTS: Concern = { rights: true, devices: false };
const DEVICES: Concern = { rights: true, devices: true };

export function concernOf({ kind, id, partnerId }: AccessChange, caller: Caller): Concern {
  switch (kind) {
    case 'person':
      return caller.userId === id ? RIGHTS : NONE;
    case 'session':
      return caller.sessionId === id ? RIGHTS : NONE;
    case 'role':
      return caller.roleId === id ? RIGHTS : NONE;
    case 'api_key':
      return caller.apiKeyId === id ? RIGHTS : NONE;
    case 'partner':
      if (caller.scope === 'partner') return caller.partnerId === id ? RIGHTS : NONE;
      // A caller of an organization does not say which partner that organization belongs to.
      return caller.scope === 'organization' ? RIGHTS : DEVICES;
    case 'organization':
      if (caller.scope === 'system' || caller.orgIds.includes(id)) return DEVICES;
      return caller.orgAccess === 'all' && caller.partnerId === partnerId ? DEVICES : NONE;
    case 'agent':
      return NONE;
    default:
      return kind satisfies never;
  }
}

/** The interval at which rights are looked up even without an announced change. */
const RECHECK_MS = 15_000;
/** The wait after a failed look-up. */
const RETRY_MS = 1000;
/** Added to the end of a credential, so that the look-up comes after it. */
const MARGIN_MS = 20;
/** Limits concurrent look-ups: a change may affect all connections, and others need the pool as well. */
const CHECKS_AT_ONCE = 4;

/** How to look up the rights of one connection, and what to do when they change. */
export interface AccessOptions {
  caller: Caller;
  /** Throws an `AppError` when the credential is no longer valid. */
  authenticate: () => Promise<Caller>;
  /** The connection has to end, because the credential is no longer valid or the rights have changed. */
  onLost: () => void;
  /** The rights are the same, but they may cover other devices. */
  onDevicesChanged: () => void;
}

/**
 * The rights of all dashboard connections of this node, and of callers to whom an answer is being sent. They are looked
 * up again as soon as they may have changed.
 */
export class DashboardAccess {
  readonly #open = new Set<ConnectionAccess>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  readonly recheckMs: number;
  readonly isInTouch: () => boolean;
  readonly log: Logger;

  /** @param options.isInTouch  whether announced changes reach this node at this moment */
  constructor(options: { log: Logger; isInTouch: () => boolean; recheckMs?: number | undefined }) {
    this.log = options.log;
    this.isInTouch = options.isInTouch;
    this.recheckMs = options.recheckMs ?? RECHECK_MS;
  }

  admit(options: AccessOptions): ConnectionAccess {
    const access = new ConnectionAccess(this, options, () => this.#open.delete(access));
    this.#open.add(access);
    return access;
  }

  changed(changes: readonly AccessChange[]): void {
    for (const access of this.#open) {
      const concerns = changes.map((change) => concernOf(change, access.caller));
      const devices = concerns.some((concern) => concern.devices);
      if (devices || concerns.some(({ rights }) => rights)) void access.recheck({ devices });
    }
  }

  /** Looks up the rights of all connections, because announcements may have been missed. */
  recheckAll(): void {
    for (const access of this.#open) void access.recheck({ devices: true });
  }

  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= CHECKS_AT_ONCE) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      // The slot goes to the look-up that has waited longest.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}

/** The rights of one connection. */
export class ConnectionAccess {
  caller: Caller;
  readonly #all: DashboardAccess;
  readonly #options: AccessOptions;
  readonly #onClose: () => void;
  #timer: Timer | undefined;
  #checking: Promise<void> | undefined;
  #isOutdated = false;
  #devicesMayDiffer = false;
  #isUnknown = false;
  #isClosed = false;

  constructor(all: DashboardAccess, options: AccessOptions, onClose: () => void) {
    this.#all = all;
    this.#options = options;
    this.#onClose = onClose;
    this.caller = options.caller;
    this.#recheckLater();
  }

  /**
   * The caller with current rights, which are looked up first if they may have changed. New work begins with this. Throws
   * `unauthenticated` when the connection has ended, and `unavailable` when the rights cannot be looked up.
   */
  async current(): Promise<Caller> {
    if (this.#checking !== undefined || this.#isUnknown || !this.#all.isInTouch()) await this.recheck();
    if (this.#isClosed) throw new AppError('unauthenticated', 'This connection has ended. Sign in again.');
    if (this.#isUnknown) {
      throw new AppError('unavailable', 'Service temporarily unavailable', { retryAfterMs: RETRY_MS });
    }
    return this.caller;
  }

  /** Looks up the rights. If a look-up is under way it may have read the old rights, so another one follows it. */
  recheck({ devices = false }: { devices?: boolean } = {}): Promise<void> {
    this.#isOutdated = true;
    this.#devicesMayDiffer ||= devices;
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      this.#recheckLater();
    });
    return this.#checking;
  }

  close(): void {
    this.#isClosed = true;
    clock.clear(this.#timer);
    this.#onClose();
  }

  async #check(): Promise<void> {
    clock.clear(this.#timer);
    while (this.#isOutdated && !this.#isClosed) {
      try {
        const now = await this.#all.inTurn(() => {
          this.#isOutdated = false;
          return this.#options.authenticate();
        });
        if (rights(now) !== rights(this.caller)) return this.#lose();
        this.caller = now;
        this.#isUnknown = false;
      } catch (error) {
        if (error instanceof AppError && error.code !== 'unavailable') return this.#lose();
        if (!this.#isUnknown) this.#all.log.warn({ err: error }, 'hub.dashboard_recheck_failed');
        this.#isUnknown = true;
        return;
      }
    }
    if (!this.#devicesMayDiffer || this.#isClosed) return;
    this.#devicesMayDiffer = false;
    this.#options.onDevicesChanged();
  }

  #lose(): void {
    if (this.#isClosed) return;
    this.close();
    this.#options.onLost();
  }

  #recheckLater(): void {
    clock.clear(this.#timer);
    if (this.#isClosed) return;
    const waitMs = this.#isUnknown ? RETRY_MS : this.#all.recheckMs;
    const validMs = (this.caller.validUntil?.getTime() ?? 0) - clock.now();
    // If the clock of the database is behind ours, the next regular look-up finds the end of the credential.
    const isSoonOver = validMs > 0 && validMs < waitMs;
    this.#timer = clock.setTimeout(() => void this.recheck(), isSoonOver ? validMs + MARGIN_MS : waitMs);
  }
}

function rights({ scope, partnerId, orgAccess, orgIds, roleId, permissions }: Caller): string {
  return JSON.stringify([scope, partnerId, orgAccess, [...orgIds].sort(), roleId, [...permissions].sort()]);
}

const DEVICES_PER_CHECK = 1000;

interface Parts {
  registry: ActorRegistry;
  credentials: Pick<AgentCredentials, 'forget' | 'lapsed'>;
  dashboards: DashboardAccess;
  live: Pick<LiveFilters, 'resync'> | undefined;
  log: Logger;
}

/** Applies changed rights and tenants to the agents and dashboards that are connected to this node. */
export class AccessChanges {
  readonly #parts: Parts;
  /** Connected devices whose permission to be connected has to be checked. */
  readonly #unchecked = new Set<string>();
  #checking: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @param payloads  as the database announces them */
  changed(payloads: readonly string[]): void {
    const changes: AccessChange[] = [];
    for (const payload of payloads) {
      const change = readAccessChange(payload);
      // A newer version may announce changes that this one does not know.
      if (change === undefined) return this.recheckAll();
      changes.push(change);
    }
    this.#parts.dashboards.changed(changes);
    const tenants = new Set(changes.filter(isOfTenant).map(({ id }) => id));
    const agents = changes.filter(({ kind }) => kind === 'agent').map(({ id }) => id);
    if (agents.length > 0) this.#agentsChanged(agents);
    if (tenants.size > 0) this.#tenantsChanged(tenants);
  }

  /** Checks all connections, because announcements may have been missed. */
  recheckAll(): void {
    const { registry, credentials, dashboards, live } = this.#parts;
    credentials.forget('all');
    dashboards.recheckAll();
    live?.resync();
    this.#check(Array.from(registry.values(), ({ deviceId }) => deviceId));
  }

  /** Resolves when no connection is left to check. */
  async settle(): Promise<void> {
    await this.#checking;
  }

  close(): void {
    this.#closing.abort();
  }

  #agentsChanged(deviceIds: readonly string[]): void {
    const { registry, credentials } = this.#parts;
    credentials.forget(deviceIds);
    for (const id of deviceIds) {
      const actor = registry.get(id);
      // A device that waited was approved or refused. Its agent learns what when it reconnects.
      if (actor?.isPending === true) actor.stop(undefined, 'socket_closed');
    }
    this.#check(deviceIds.filter((id) => registry.get(id) !== undefined));
  }

  #tenantsChanged(ids: ReadonlySet<string>): void {
    const { registry, credentials, live } = this.#parts;
    credentials.forget('all');
    live?.resync();
    const connected: string[] = [];
    for (const { deviceId, identity } of registry.values()) {
      if (ids.has(identity.orgId) || ids.has(identity.partnerId)) connected.push(deviceId);
    }
    this.#check(connected);
  }

  #check(deviceIds: readonly string[]): void {
    for (const id of deviceIds) this.#unchecked.add(id);
    if (this.#unchecked.size === 0) return;
    this.#checking ??= this.#checkAll().finally(() => (this.#checking = undefined));
  }

  async #checkAll(): Promise<void> {
    const { credentials, registry, log } = this.#parts;
    while (this.#unchecked.size > 0 && !this.#closing.signal.aborted) {
      const some = [...this.#unchecked].slice(0, DEVICES_PER_CHECK);
      for (const id of some) this.#unchecked.delete(id);
      try {
        for (const { deviceId, code } of await credentials.lapsed(some)) {
          // The agent learns the reason when it tries to reconnect.
          const notice = code === 'DECOMMISSIONED' ? DECOMMISSIONED : undefined;
          registry.get(deviceId)?.stop(notice, 'socket_closed');
        }
      } catch (error) {
        log.warn({ err: error, devices: some.length }, 'hub.agents_not_rechecked');
        for (const id of some) this.#unchecked.add(id);
        // Closing ends the pause.
        await clock.sleep(RETRY_MS, { signal: this.#closing.signal }).catch(() => undefined);
      }
    }
  }
}

const isOfTenant = ({ kind }: AccessChange) => kind === 'organization' || kind === 'partner';
