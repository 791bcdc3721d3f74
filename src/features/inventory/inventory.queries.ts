import { containing, nameOrder, inTenant } from '../../platform/db/statement.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import type { Installed, SoftwareChange, SoftwareDiff } from './software-diff.ts';
import type { Context } from '../../platform/context.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import {
  type FleetSoftwareQuery,
  type Installation,
  type InstallationQuery,
  type SoftwareTitle,
  VERSIONS_SHOWN,
} from './inventory.schema.ts';
import type { TimelineSource } from '../timeline-source.ts';

/** The rows of a device's installed software. Writers hold a lock on the device's own row, so there is one at a time. */

/** Changes kept of each device: the newest. */
export const CHANGES_MAX = 1000;

export interface KnownSoftware extends Installed {
  titleId: string;
}

interface DeviceRef {
  orgId: string;
  deviceId: string;
}

/**
 * Call this before any join below. Until the tables are analyzed, Postgres expects hardly any rows of a device, and chooses
 * a nested loop that takes seconds for five thousand titles.
 */
export const expectMany = async (tx: Tx): Promise<void> => {
  await tx.raw('set local enable_nestloop = off');
};

const READ = {
  name: 'inventory-software',
  text: `
    select s.title_id, t.name, s.version, s.publisher, s.installed_at, s.source
    from device_software s join software_titles t on t.org_id = $1 and t.id = s.title_id
    where s.org_id = $1 and s.device_id = $2`,
};

export async function readSoftware(tx: Tx, { orgId, deviceId }: DeviceRef): Promise<KnownSoftware[]> {
  const rows = await runPrepared<{
    title_id: string;
    name: string;
    version: string;
    publisher: string | null;
    installed_at: Date | null;
    source: string | null;
  }>(tx, READ, [orgId, deviceId]);
  return rows.map(({ title_id: titleId, installed_at: installedAt, ...row }) => ({
    ...row,
    titleId,
    installedAt: installedAt?.getTime() ?? null,
  }));
}

const LOCK = {
  name: 'inventory-titles-lock',
  text: `select case when $2 then pg_advisory_xact_lock(software_titles_lock($1))
    else pg_advisory_xact_lock_shared(software_titles_lock($1)) end`,
};

// Inserted in the order of the names, so that two devices with the same new titles wait for each other without a deadlock.
const ADD_TITLES = {
  name: 'inventory-titles-add',
  text: `
    insert into software_titles (org_id, name)
    select $1, wanted.name from unnest($2::text[]) as wanted (name) order by wanted.name
    on conflict (org_id, name) do nothing`,
};

const ADD = {
  name: 'inventory-software-add',
  text: `
    insert into device_software (org_id, device_id, title_id, version, publisher, installed_at, source, first_seen_at)
    select $1, $2, t.id, s.version, s.publisher, s.installed_at, s.source, now()
    from unnest($3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[])
      as s (name, version, publisher, installed_at, source)
    join software_titles t on t.org_id = $1 and t.name = s.name`,
};

const CORRECT = {
  name: 'inventory-software-correct',
  text: `
    update device_software d set publisher = s.publisher, installed_at = s.installed_at, source = s.source
    from unnest($3::bigint[], $4::text[], $5::text[], $6::timestamptz[], $7::text[])
      as s (title_id, version, publisher, installed_at, source)
    where d.org_id = $1 and d.device_id = $2 and d.title_id = s.title_id and d.version = s.version`,
};

const REMOVE = {
  name: 'inventory-software-remove',
  text: `
    delete from device_software d using unnest($3::bigint[], $4::text[]) as s (title_id, version)
    where d.org_id = $1 and d.device_id = $2 and d.title_id = s.title_id and d.version = s.version`,
};

const REMOVE_TITLES = {
  name: 'inventory-titles-remove',
  text: `
    delete from software_titles t where t.org_id = $1 and t.id = any($2::bigint[])
      and not exists (select from device_software s where s.org_id = t.org_id and s.title_id = t.id)`,
};

/** Applies the difference with one statement for each kind of change in it. */
export async function applyDiff(
  tx: Tx,
  { orgId, deviceId }: DeviceRef,
  { added, removed, corrected }: SoftwareDiff<KnownSoftware>,
): Promise<void> {
  const keys = (entries: readonly KnownSoftware[]) => [
    entries.map(({ titleId }) => titleId),
    entries.map(({ version }) => version),
  ];
  const details = (entries: readonly Installed[]) => [
    entries.map(({ publisher }) => publisher),
    entries.map(({ installedAt }) => (installedAt === null ? null : new Date(installedAt).toISOString())),
    entries.map(({ source }) => source),
  ];
  const names = new Set(added.map(({ name }) => name));
  const dropped = [...new Set(removed.filter(({ name }) => !names.has(name)).map(({ titleId }) => titleId))];
  if (names.size > 0 || dropped.length > 0) await runPrepared(tx, LOCK, [orgId, dropped.length > 0]);
  if (names.size > 0) {
    await runPrepared(tx, ADD_TITLES, [orgId, [...names]]);
    const values = [added.map(({ name }) => name), added.map(({ version }) => version), ...details(added)];
    await runPrepared(tx, ADD, [orgId, deviceId, ...values]);
  }
  if (corrected.length > 0) {
    const values = [
      ...keys(corrected.map(({ known }) => known)),
      ...details(corrected.map(({ now }) => now)),
    ];
    await runPrepared(tx, CORRECT, [orgId, deviceId, ...values]);
  }
  if (removed.length > 0) await runPrepared(tx, REMOVE, [orgId, deviceId, ...keys(removed)]);
  if (dropped.length > 0) await runPrepared(tx, REMOVE_TITLES, [orgId, dropped]);
}

const KEEP_CHANGES = {
  name: 'inventory-changes-keep',
  text: `
    insert into software_changes (org_id, device_id, at, change, name, version, previous_version)
    select $1, $2, $3, c.change, c.name, c.version, c.previous_version
    from unnest($4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
      as c (change, name, version, previous_version, position)
    order by c.position`,
};

const FORGET_CHANGES = {
  name: 'inventory-changes-forget',
  text: `
    delete from software_changes where org_id = $1 and device_id = $2 and id < (
      select id from software_changes where org_id = $1 and device_id = $2
      order by id desc offset ${CHANGES_MAX - 1} limit 1)`,
};

/** Stores changes and removes the oldest ones over the limit. */
export async function keepChanges(
  tx: Tx,
  { orgId, deviceId }: DeviceRef,
  at: string,
  changes: readonly SoftwareChange[],
): Promise<void> {
  if (changes.length === 0) return;
  const kept = changes.slice(0, CHANGES_MAX);
  await runPrepared(tx, KEEP_CHANGES, [
    orgId,
    deviceId,
    at,
    kept.map(({ change }) => change),
    kept.map(({ name }) => name),
    kept.map(({ version }) => version),
    kept.map(({ previousVersion }) => previousVersion),
  ]);
  await runPrepared(tx, FORGET_CHANGES, [orgId, deviceId]);
}

/**
 * Titles of all organizations that the caller can see, by name. Devices are counted for the page only, which is enough work
 * for titles that every device has. So a title that only decommissioned devices have is listed with no device.
 */
export async function listTitles(
  ctx: Context,
  { page, limit, search, orgId }: FleetSoftwareQuery,
): Promise<Page<SoftwareTitle>> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const conditions = [
    inTenant(ctx.caller, 't.org_id'),
    ...(orgId === undefined ? [] : ['t.org_id = :orgId']),
    ...(search === undefined ? [] : ['t.name ilike :pattern']),
  ];
  const { rows } = await ctx.tx.raw<{ rows: { total: number; data: SoftwareTitle[] }[] }>(
    `with titles as materialized (
      select t.org_id, t.id, t.name from software_titles t where ${conditions.join(' and ')}
    ), names as materialized (
      select name from titles group by name
    ), shown as materialized (
      select name from names order by ${nameOrder('name')} offset :offset limit :limit
    ), installed as materialized (
      select t.name, s.device_id, s.version, s.first_seen_at from shown join titles t using (name)
      join device_software s on s.org_id = t.org_id and s.title_id = t.id
      where not exists (select from devices d
        where d.org_id = s.org_id and d.id = s.device_id and d.condition = 'decommissioned')
    ), versions as (
      select name, version, count(*)::int as devices,
        case when bool_and(first_seen_at is not null) then min(first_seen_at) end as since,
        row_number() over (partition by name order by count(*) desc, version desc) as position
      from installed group by name, version
    ), spread as (
      select name, count(*)::int as kinds,
        json_agg(json_build_object('version', version, 'deviceCount', devices, 'firstSeenAt',
            to_char(since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by position)
          filter (where position <= ${VERSIONS_SHOWN}) as versions
      from versions group by name
    ), holders as (
      select name, count(distinct device_id)::int as devices from installed group by name
    )
    select (select count(*)::int from names) as total,
      coalesce((select json_agg(json_build_object('name', name, 'deviceCount', coalesce(h.devices, 0),
          'versionCount', coalesce(s.kinds, 0), 'versions', coalesce(s.versions, '[]')) order by ${nameOrder('name')})
        from shown left join holders h using (name) left join spread s using (name)), '[]') as data`,
    { orgId: orgId ?? null, pattern: containing(search ?? ''), offset: (page - 1) * limit, limit },
  );
  return { data: rows[0]?.data ?? [], pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

/** The devices that have a title, by their names: which version each has, and since when. */
export async function listInstallations(
  ctx: Context,
  { page, limit, name, version, orgId }: InstallationQuery,
): Promise<Page<Installation>> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const conditions = [
    inTenant(ctx.caller, 't.org_id'),
    't.name = :name',
    ...(orgId === undefined ? [] : ['t.org_id = :orgId']),
    ...(version === undefined ? [] : ['s.version = :version']),
  ];
  const { rows } = await ctx.tx.raw<{ rows: (Installation & { total: number })[] }>(
    `select d.id as "deviceId", d.org_id as "orgId", d.hostname, d.display_name as "displayName", s.version, s.publisher,
      s.installed_at as "installedAt", s.first_seen_at as "firstSeenAt", (count(*) over ())::int as total
    from software_titles t
    join device_software s on s.org_id = t.org_id and s.title_id = t.id
    join devices d on d.org_id = s.org_id and d.id = s.device_id and d.condition <> 'decommissioned'
    where ${conditions.join(' and ')}
    order by ${nameOrder('coalesce(d.display_name, d.hostname)')}, d.id, s.version offset :offset limit :limit`,
    { name, version: version ?? null, orgId: orgId ?? null, offset: (page - 1) * limit, limit },
  );
  return { data: rows, pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

/** How many names of changed software the timeline of a device shows for one report. */
const NAMES_SHOWN = 5;

/** The changes that one report has shown are one entry. */
export const softwareTimeline: TimelineSource = {
  kind: 'software',
  from: `(select at, (array_agg(name order by name))[1:${NAMES_SHOWN}] as names,
      count(*) filter (where change = 'installed') as installed, count(*) filter (where change = 'updated') as updated,
      count(*) filter (where change = 'removed') as removed
    from software_changes where org_id = :orgId and device_id = :deviceId group by at) t where true`,
  id: '(extract(epoch from t.at) * 1000)::bigint::text',
  at: 't.at',
  fields: { installed: 't.installed', updated: 't.updated', removed: 't.removed', names: 't.names' },
};
