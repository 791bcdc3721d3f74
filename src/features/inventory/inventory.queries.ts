import { runPrepared } from '../../platform/db/prepared.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Installed, SoftwareChange, SoftwareDiff } from './software-diff.ts';

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
    insert into device_software (org_id, device_id, title_id, version, publisher, installed_at, source)
    select $1, $2, t.id, s.version, s.publisher, s.installed_at, s.source
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
