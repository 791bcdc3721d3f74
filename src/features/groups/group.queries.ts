import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { withPatternTimeout, type Conditions, visibleDevices, whereMatching } from '../conditions/index.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import type { TimelineSource } from '../timeline-source.ts';
import { Group } from './group.model.ts';

/** The scope of background work in one organization, without a user. */
export const organizationScope = (orgId: string): TenantScope => ({
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [orgId],
});

/** The members of groups. Each statement that changes them also records the change and its reason. */

export type Reason =
  | 'manual'
  | 'group_created'
  | 'filter_match'
  | 'filter_changed'
  | 'device_moved'
  | 'device_decommissioned';

interface Named {
  id: string;
  orgId: string;
}

/** Adds devices and returns those that were not members before. */
export async function join(
  tx: Tx,
  group: Named,
  deviceIds: readonly string[],
  { reason, by }: { reason: Reason; by: string },
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { device_id: string }[] }>(
    `with joined as (
      insert into device_group_members (group_id, device_id, org_id, added_by)
      select ?::uuid, given.id, ?::uuid, ?::uuid from unnest(?::uuid[]) as given (id)
      on conflict do nothing returning device_id)
    ${recording('joined', `'joined'`, `'${reason}'`, '?::uuid')}
    select device_id from joined`,
    [group.id, group.orgId, by, [...deviceIds], group.orgId, group.id, by, group.orgId],
  );
  return rows.map((row) => row.device_id);
}

/** Removes devices and returns those that were members before. */
export async function leave(
  tx: Tx,
  group: Named,
  deviceIds: readonly string[],
  by: string,
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { device_id: string }[] }>(
    `with gone as (
      delete from device_group_members where org_id = ? and group_id = ? and device_id = any(?::uuid[])
      returning device_id)
    ${recording('gone', `'left'`, `'manual'`, '?::uuid')}
    select device_id from gone`,
    [group.orgId, group.id, [...deviceIds], group.orgId, group.id, by, group.orgId],
  );
  return rows.map((row) => row.device_id);
}

/** SQL: records the devices of a named query. Parameters: organization, group, user, organization. */
const recording = (table: string, change: string, reason: string, by: string) => `, noted as (
      insert into device_group_changes (org_id, group_id, device_id, hostname, change, reason, changed_by)
      select ?::uuid, ?::uuid, d.id, d.hostname, ${change}, ${reason}, ${by}
      from ${table} join devices d on d.org_id = ?::uuid and d.id = ${table}.device_id)`;

/**
 * Makes the members of a dynamic group equal to the devices that its conditions find, in one statement. The caller must
 * hold the lock of the group's row.
 * @param only  the devices to examine; undefined: all devices of the organization
 * @returns the devices that joined or left
 */
export async function reconcile(
  tx: Tx,
  group: Named,
  {
    conditions,
    only,
    reason,
    by = null,
  }: {
    conditions: Conditions;
    only?: readonly string[] | undefined;
    reason: Extract<Reason, 'group_created' | 'filter_match' | 'filter_changed'>;
    by?: string | null;
  },
): Promise<string[]> {
  const scope = organizationScope(group.orgId);
  const devices = visibleDevices(tx, scope).where('d.org_id', group.orgId).select('d.id');
  if (only !== undefined) void devices.whereRaw('d.id = any(?::uuid[])', [[...only]]);
  const matching = whereMatching(devices, conditions, { caller: scope });
  const among = only === undefined ? '' : 'and m.device_id = any(?::uuid[])';
  const leftFor = reason === 'filter_match' ? 'filter_unmatch' : reason;
  const { rows } = await withPatternTimeout(tx, conditions, () =>
    tx.raw<{ rows: { device_id: string }[] }>(
      `with matching as materialized (?), joined as (
        insert into device_group_members (group_id, device_id, org_id)
        select ?::uuid, matching.id, ?::uuid from matching
        where not exists (select from device_group_members m where m.group_id = ?::uuid and m.device_id = matching.id)
        on conflict do nothing returning device_id
      ), gone as (
        delete from device_group_members m where m.org_id = ?::uuid and m.group_id = ?::uuid ${among}
          and not exists (select from matching where matching.id = m.device_id)
        returning device_id
      ), changed as (
        select device_id, 'joined' as change from joined union all select device_id, 'left' from gone
      ), noted as (
        insert into device_group_changes (org_id, group_id, device_id, hostname, change, reason, changed_by)
        select ?::uuid, ?::uuid, d.id, d.hostname, changed.change,
          case when d.condition = 'decommissioned' then 'device_decommissioned'
            when changed.change = 'left' then ? else ? end, ?::uuid
        from changed join devices d on d.org_id = ?::uuid and d.id = changed.device_id
      )
      select device_id from changed`,
      [
        matching,
        group.id,
        group.orgId,
        group.id,
        group.orgId,
        group.id,
        ...(only === undefined ? [] : [[...only]]),
        group.orgId,
        group.id,
        leftFor,
        reason,
        by,
        group.orgId,
      ] as never,
    ),
  );
  return rows.map((row) => row.device_id);
}

/** The members of a dynamic group can be changed only through its filter. */
export function assertStatic({ type }: { type: 'static' | 'dynamic' }): void {
  if (type === 'static') return;
  throw new AppError(
    'conflict',
    'The members of a dynamic group are determined by its filter. Change the filter instead.',
  );
}

/** The positions in the list, counted from 0, of ids that are not groups of the organization. */
export async function groupsOutsideOrganization(
  tx: Tx,
  orgId: string,
  groupIds: readonly string[],
): Promise<number[]> {
  if (groupIds.length === 0) return [];
  const { rows } = await tx.raw<{ rows: { position: number }[] }>(
    `select given.position::int - 1 as position
    from unnest(?::uuid[]) with ordinality as given (id, position)
    left join device_groups g on g.org_id = ? and g.id = given.id
    where g.id is null order by 1`,
    [[...groupIds], orgId],
  );
  return rows.map(({ position }) => position);
}

export const accessibleGroups = (ctx: Context) =>
  Group.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'device_groups.org_id'));

/** Decommissioned devices keep their memberships in case they return, but are neither listed nor counted. */
const DEVICE_COUNT_SQL = `(select count(*)::int from device_group_members m
  join devices d on d.org_id = m.org_id and d.id = m.device_id
  where m.org_id = device_groups.org_id and m.group_id = device_groups.id and d.condition <> 'decommissioned')`;

export const groupsWithDeviceCount = (ctx: Context) =>
  accessibleGroups(ctx).select('device_groups.*', ctx.tx.raw(`${DEVICE_COUNT_SQL} as device_count`));

interface GroupKey {
  id: string;
  orgId: string;
}

/** Marks a group as evaluated now. Returns false if it was evaluated since it was read. */
export async function claimEvaluation(
  tx: Tx,
  { id, orgId, evaluatedAt }: GroupKey & { evaluatedAt: Date | null },
): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(
    `update device_groups set evaluated_at = now() where org_id = ? and id = ? and evaluated_at is not distinct from ?
    returning id`,
    [orgId, id, evaluatedAt],
  );
  return rows.length > 0;
}

/** Deletes the recorded changes of a group that are older than so many days, and all but the newest. */
export async function forgetOldChanges(
  tx: Tx,
  { id, orgId }: GroupKey,
  { days, atMost }: { days: number; atMost: number },
): Promise<void> {
  await tx.raw(
    `delete from device_group_changes where org_id = ? and group_id = ? and (at < now() - make_interval(days => ?)
      or id <= (select id from device_group_changes where org_id = ? and group_id = ? order by id desc offset ? limit 1))`,
    [orgId, id, days, orgId, id, atMost],
  );
}

/** Locks the group and returns the ID of its filter; null for a static group and one that is gone. */
export async function lockFilterOfGroup(tx: Tx, { id, orgId }: GroupKey): Promise<string | null> {
  const { rows } = await tx.raw<{ rows: { filter_id: string | null }[] }>(
    'select filter_id from device_groups where org_id = ? and id = ? for no key update',
    [orgId, id],
  );
  return rows[0]?.filter_id ?? null;
}

export const groupSearch = searchOf({ type: 'groups', permission: 'devices:read' }, (caller) => ({
  table: 'device_groups',
  where: inTenant(caller, 's.org_id'),
  haystack: haystackOf('s.name', 's.description'),
  title: 's.name',
  description: 's.description',
  order: 'lower(s.name)',
}));

/** How a device came into groups and out of them. Groups that were deleted since have taken their changes along. */
export const groupTimeline: TimelineSource = {
  kind: 'group',
  from: `device_group_changes t join device_groups g on g.org_id = t.org_id and g.id = t.group_id
    where t.org_id = :orgId and t.device_id = :deviceId`,
  id: 't.id::text',
  at: 't.at',
  by: 't.changed_by',
  fields: { groupId: 't.group_id', groupName: 'g.name', change: 't.change', reason: 't.reason' },
};
