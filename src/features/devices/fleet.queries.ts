import type { FleetDevice, FleetStore, DeviceHub } from '../../hub/index.ts';
import type { Presence } from '../../protocol/index.ts';
import type { Caller } from '../../platform/context.ts';
import type { Db, Query } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { type Tx, withSystem, withTenant } from '../../platform/db/transaction.ts';
import type { ExpensiveWork } from '../../platform/concurrency.ts';
import { AVERAGES_CHANGED, PRESENCE_JOIN, selectMatchable, toMatchable } from '../conditions/index.ts';
import { presenceOf } from './device.queries.ts';
import { conditionsToFollow, FILTER_CHANGED } from '../filters/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { CUSTOM_FIELD_CHANGED } from '../custom-fields/index.ts';

/** The database side of live filters: slices of a fleet, and parsed conditions. */
export function createFleetStore({ db, expensive }: { db: Db; expensive: ExpensiveWork }): FleetStore {
  // Waits for a slot without a time limit; the number of live filters per person is limited elsewhere.
  const ofPerson = <T>(caller: Caller, work: (tx: Tx) => Promise<T>) =>
    expensive.run(caller, () => withTenant(db, caller, work, { readOnly: true }), { isPatient: true });
  return {
    async rules(caller, asked) {
      const { key, conditions } = await ofPerson(caller, (tx) => conditionsToFollow({ tx, caller }, asked));
      return { key, rules: conditions };
    },

    async reach(caller, { orgId }) {
      return ofPerson(caller, async (tx) => {
        if (orgId !== undefined) await assertOrganizationAccess({ tx, caller }, orgId);
        const organizations = tx('organizations as o')
          .whereRaw(inTenant(caller, 'o.id'))
          .whereNull('o.deleted_at')
          .select<{ orgId: string; devices: number }[]>(
            'o.id as orgId',
            tx.raw(`(select count(*)::int from devices d
                where d.org_id = o.id and d.condition <> 'decommissioned') as devices`),
          );
        if (orgId !== undefined) void organizations.where('o.id', orgId);
        return organizations;
      });
    },

    async slice(orgIds, { after, atMost, withSoftware }) {
      return withSystem(db, 'read a slice of the fleet for live filters', async (tx) => {
        const query = inService(tx).whereRaw('d.org_id = any(?::uuid[])', [[...orgIds]]);
        if (after !== undefined) void query.whereRaw('(d.org_id, d.id) > (?, ?)', [after.orgId, after.id]);
        return read(query.orderByRaw('d.org_id, d.id').limit(atMost), withSoftware);
      });
    },

    async devices(deviceIds, { withSoftware }) {
      return withSystem(db, 'read changed devices for live filters', (tx) =>
        read(inService(tx).whereRaw('d.id = any(?::uuid[])', [[...deviceIds]]), withSoftware),
      );
    },
  };
}

const inService = (tx: Tx): Query =>
  tx('devices as d')
    .join('organizations as o', 'o.id', 'd.org_id')
    .joinRaw(PRESENCE_JOIN)
    .where('d.condition', '<>', 'decommissioned')
    .whereNull('o.deleted_at');

const READS = new Set(['groupIds'] as const);
const READS_ALL = new Set(['groupIds', 'software'] as const);

type WithPresence = ReturnType<typeof toMatchable> & {
  partnerId: string;
  state: Presence['state'] | null;
  since: Date | null;
  reason: Presence['reason'] | null;
  presenceEpoch: number;
};

async function read(query: Query, withSoftware: boolean): Promise<FleetDevice[]> {
  const withPresence = query.select({
    partnerId: 'o.partner_id',
    state: 'p.state',
    since: 'p.since',
    reason: 'p.reason',
    presenceEpoch: query.client.raw('coalesce(p.epoch, 0)::float8'),
  });
  const rows = await selectMatchable(withPresence, withSoftware ? READS_ALL : READS);
  return rows.map((row) => {
    const { state, since, reason, ...device } = toMatchable(row) as WithPresence;
    return {
      ...device,
      presence: presenceOf({ state, since, reason, enrolled_at: new Date(device.enrolledAt) }),
    };
  });
}

/** Evaluates live device lists again when a filter, a custom field or averages that their conditions use have changed. */
export function followChangesOfConditions(
  hub: Pick<DeviceHub, 'events' | 'rulesChanged' | 'averagesChanged'>,
): void {
  hub.events.subscribe(AVERAGES_CHANGED, () => hub.averagesChanged());
  hub.events.subscribe(FILTER_CHANGED, ({ filterId }) =>
    hub.rulesChanged({ mayConcern: (_caller, request) => request.filterId === filterId }),
  );
  hub.events.subscribe(CUSTOM_FIELD_CHANGED, ({ orgId, key }) =>
    hub.rulesChanged({
      mayConcern: ({ scope, orgAccess, orgIds }) =>
        scope === 'system' || orgAccess === 'all' || orgIds.includes(orgId),
      affects: ({ customFields }) => customFields.has(key),
    }),
  );
}
