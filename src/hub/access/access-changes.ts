import { clock } from '../../clock.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { DECOMMISSIONED } from '../device/reconnect-notices.ts';
import { type AccessChange, readAccessChange } from './access-change.ts';
import type { DashboardAccess } from './dashboard-access.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { AgentCredentials } from '../ports/agent-credentials.ts';

const DEVICES_PER_CHECK = 1000;
const RETRY_MS = 1000;

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
      // Somebody has decided about a device that waited. Its agent learns what when it reconnects.
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
