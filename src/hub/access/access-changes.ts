import type { HubReconnect } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { type AccessChange, readAccessChange } from './access-change.ts';
import type { DashboardAccess } from './dashboard-access.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { AgentCredentials } from '../ports.ts';

const DEVICES_AT_ONCE = 1000;
/** When the database is asked again that did not answer. */
const AGAIN_MS = 1000;

export const DECOMMISSIONED: HubReconnect = { afterMs: 3_600_000, reason: 'decommissioned' };

interface Parts {
  registry: ActorRegistry;
  credentials: Pick<AgentCredentials, 'forget' | 'lapsed'>;
  dashboards: DashboardAccess;
  live: Pick<LiveFilters, 'resync'> | undefined;
  log: Logger;
}

/** What it means for those who are connected here that somebody's rights, or a tenant's, have changed. */
export class AccessChanges {
  readonly #parts: Parts;
  /** Connected devices of which it is to be asked whether they still may be. */
  readonly #unchecked = new Set<string>();
  #isChecking = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @param payloads  as the database announces them */
  changed(payloads: readonly string[]): void {
    const changes: AccessChange[] = [];
    for (const payload of payloads) {
      const change = readAccessChange(payload);
      // A newer version may announce more than this one knows.
      if (change === undefined) return this.unsure();
      changes.push(change);
    }
    this.#parts.dashboards.changed(changes);
    const tenants = new Set(changes.filter(isOfTenant).map(({ id }) => id));
    const agents = changes.filter(({ kind }) => kind === 'agent').map(({ id }) => id);
    if (agents.length > 0) this.#agentsChanged(agents);
    if (tenants.size > 0) this.#tenantsChanged(tenants);
  }

  /** Changes may have been missed. */
  unsure(): void {
    const { registry, credentials, dashboards, live } = this.#parts;
    credentials.forget('all');
    dashboards.unsure();
    live?.resync();
    this.#check(Array.from(registry.values(), ({ deviceId }) => deviceId));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #agentsChanged(deviceIds: readonly string[]): void {
    const { registry, credentials } = this.#parts;
    credentials.forget(deviceIds);
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
    if (this.#unchecked.size > 0 && !this.#isChecking) void this.#checkAll();
  }

  async #checkAll(): Promise<void> {
    const { credentials, registry, log } = this.#parts;
    this.#isChecking = true;
    while (this.#unchecked.size > 0 && !this.#isClosed) {
      const some = [...this.#unchecked].slice(0, DEVICES_AT_ONCE);
      for (const id of some) this.#unchecked.delete(id);
      try {
        for (const { deviceId, code } of await credentials.lapsed(some)) {
          // Why it may not come in again, the agent is told when it tries to.
          const notice = code === 'DECOMMISSIONED' ? DECOMMISSIONED : undefined;
          registry.get(deviceId)?.stop(notice, 'socket_closed');
        }
      } catch (error) {
        log.warn({ err: error, devices: some.length }, 'hub.agents_not_rechecked');
        for (const id of some) this.#unchecked.add(id);
        await new Promise<void>((go) => {
          this.#timer = setTimeout(go, AGAIN_MS);
        });
      }
    }
    this.#isChecking = false;
  }
}

const isOfTenant = ({ kind }: AccessChange) => kind === 'organization' || kind === 'partner';
