import type { UpgradeReport } from '../../hub/ports.ts';
import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { DeviceModel, setUpdating } from '../devices/index.ts';
import { type HeldAttempt, type Attempt, REQUEST_DAYS } from './attempts.ts';
import { DeviceUpgrade } from './upgrade.model.ts';
import type { PinnedComponent } from './upgrade.schema.ts';
import type { TimelineSource } from '../timeline-source.ts';

interface HeldRow {
  device_id: string;
  component: PinnedComponent;
  target_version: string;
  state: HeldAttempt['state'];
  retry_at: Date | null;
  started_at: Date;
  updated_at: Date;
}

/** The attempts that decide about offers: those that have not ended, and those whose version waits. Of some devices, or of all. */
export async function heldAttempts(
  tx: Tx,
  deviceIds: readonly string[] | undefined,
): Promise<(HeldAttempt & { deviceId: string })[]> {
  const ofSome = deviceIds === undefined ? '' : 'and device_id = any(:deviceIds::uuid[])';
  // Each half has an index of its own.
  const { rows } = await tx.raw<{ rows: HeldRow[] }>(
    `select device_id, component, target_version, state, retry_at, started_at, updated_at
      from device_upgrades where finished_at is null ${ofSome}
    union all
    select device_id, component, target_version, state, retry_at, started_at, updated_at
      from device_upgrades where finished_at is not null and retry_at is not null and retry_at > now() ${ofSome}`,
    deviceIds === undefined ? {} : { deviceIds: [...deviceIds] },
  );
  return rows.map((row) => ({
    deviceId: row.device_id,
    component: row.component,
    targetVersion: row.target_version,
    state: row.state,
    retryAt: row.retry_at,
    startedAt: row.started_at,
    updatedAt: row.updated_at,
  }));
}

/** More of a device than any report can be about, unless it names an older attempt. */
const NEWEST = 30;
const KEPT_PER_DEVICE = 100;
const UPDATING_MINUTES = 5;

interface ReportingDevice
  extends Pick<
    DeviceModel,
    'id' | 'orgId' | 'hostname' | 'displayName' | 'agentVersion' | 'watchdogVersion' | 'condition'
  > {}

/** Locked in the order of their ids, as every change of many devices does; two servers write about a device in turn. */
export async function lockDevices(
  tx: Tx,
  reports: readonly UpgradeReport[],
): Promise<Map<string, ReportingDevice>> {
  const rows = await DeviceModel.query(tx)
    .whereRaw('id = any(?::uuid[])', [reports.map(({ deviceId }) => deviceId)])
    .whereNot('condition', 'decommissioned')
    .orderBy('id')
    .forNoKeyUpdate()
    .select('id', 'org_id', 'hostname', 'display_name', 'agent_version', 'watchdog_version', 'condition');
  return new Map(rows.map((row) => [row.id, row]));
}

/** By device, newest first. */
export async function attemptsOf(
  tx: Tx,
  reports: readonly UpgradeReport[],
): Promise<ReadonlyMap<string, readonly Attempt[]>> {
  const deviceIds = reports.map(({ deviceId }) => deviceId);
  const attemptIds = reports.flatMap(({ attemptId }) => attemptId ?? []);
  const rows = await DeviceUpgrade.query(tx)
    .whereRaw(
      `id in (
        select newest.id from unnest(?::uuid[]) as asked (device_id) cross join lateral (
          select u.id from device_upgrades u where u.device_id = asked.device_id
          order by u.started_at desc, u.id desc limit ${NEWEST}) as newest
        union all
        select u.id from device_upgrades u where u.device_id = any(?::uuid[]) and u.attempt_id = any(?::uuid[]))`,
      [[...new Set(deviceIds)], deviceIds, attemptIds],
    )
    .orderByRaw('started_at desc, id desc');
  const attempts = new Map<string, Attempt[]>();
  for (const row of rows) {
    const others = attempts.get(row.deviceId);
    if (others === undefined) attempts.set(row.deviceId, [row]);
    else others.push(row);
  }
  return attempts;
}

interface Change {
  device: ReportingDevice;
  attempt: Attempt;
}

export async function writeAttempts(tx: Tx, changes: readonly Change[]): Promise<void> {
  await tx.raw(
    `insert into device_upgrades as u (id, org_id, device_id, component, attempt_id, from_version, target_version, state,
      code, error, rollout_id, by_hand, failures, retry_at, started_at, updated_at, finished_at)
    select c.id, c."orgId", c."deviceId", c.component, c."attemptId", c."fromVersion", c."targetVersion", c.state,
      c.code, c.error, c."rolloutId", c."byHand", c.failures, c."retryAt", c."startedAt", c."updatedAt", c."finishedAt"
    from jsonb_to_recordset(?::jsonb) as c (id uuid, "orgId" uuid, "deviceId" uuid, component text, "attemptId" uuid,
      "fromVersion" text, "targetVersion" text, state text, code text, error text, "rolloutId" uuid, "byHand" boolean,
      failures integer, "retryAt" timestamptz, "startedAt" timestamptz, "updatedAt" timestamptz, "finishedAt" timestamptz)
    on conflict (id) do update set attempt_id = excluded.attempt_id, from_version = excluded.from_version,
      state = excluded.state, code = excluded.code, error = excluded.error, failures = excluded.failures,
      retry_at = excluded.retry_at, started_at = excluded.started_at, updated_at = excluded.updated_at,
      finished_at = excluded.finished_at`,
    [
      JSON.stringify(
        changes.map(({ device, attempt }) => ({ ...attempt, orgId: device.orgId, deviceId: device.id })),
      ),
    ],
  );
  await tx.raw(
    `delete from device_upgrades where id in (
      select old.id from unnest(?::uuid[]) as asked (device_id) cross join lateral (
        select u.id from device_upgrades u where u.device_id = asked.device_id
        order by u.started_at desc, u.id desc offset ${KEPT_PER_DEVICE}) as old)`,
    [[...new Set(changes.map(({ device }) => device.id))]],
  );
}

/** @returns the devices whose status has changed */
export async function showUpdating(tx: Tx, deviceIds: readonly string[]): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string; isUpdating: boolean }[] }>(
    `select d.id, ${IS_UPDATING} as "isUpdating" from unnest(?::uuid[]) as d (id)`,
    [[...deviceIds]],
  );
  return setUpdating(tx, rows);
}

/** SQL: whether an upgrade of the device `d` is under way, as its status shows it for some minutes (SPEC 3). */
export const IS_UPDATING = `exists (
  select from device_upgrades u where u.device_id = d.id and u.finished_at is null and u.state <> 'offered'
    and u.started_at > now() - interval '${UPDATING_MINUTES} minutes')`;

const AT_ONCE = 500;
/** A device that has said nothing of an attempt for so long has given it up. */
const ABANDONED_HOURS = 24;

/** The version that the device `d` reports for the component of the attempt `u`. */
const REPORTED = `case u.component when 'agent' then d.agent_version else d.watchdog_version end`;

const ENDED = `
  select u.device_id as "deviceId", u.component, u.target_version as "targetVersion", u.attempt_id as "attemptId", u.state,
    u.target_version = ${REPORTED} as "hasArrived"
  from device_upgrades u join devices d on d.id = u.device_id
  where u.finished_at is null and d.condition <> 'decommissioned' and (
    u.target_version = ${REPORTED} and u.target_version is distinct from u.from_version and u.state <> 'trial'
    or u.state = 'offered' and u.started_at < now() - interval '${REQUEST_DAYS} days'
    or u.state <> 'offered' and u.updated_at < now() - interval '${ABANDONED_HOURS} hours')
  order by u.started_at limit ${AT_ONCE}`;

const STALE = `select d.id from devices d where d.condition = 'updating' and not ${IS_UPDATING} limit ${AT_ONCE}`;

export type Ended = Pick<UpgradeReport, 'deviceId' | 'component' | 'targetVersion'> & {
  attemptId: string;
  state: string;
  hasArrived: boolean | null;
};

/** The attempts that are over although the device has not ended them. */
export async function attemptsToEnd(tx: Tx): Promise<Ended[]> {
  const { rows } = await tx.raw<{ rows: Ended[] }>(ENDED);
  return rows;
}

/** The devices that are shown as updating although no upgrade is under way. */
export async function staleUpdatingDevices(tx: Tx): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(STALE);
  return rows.map(({ id }) => id);
}

/** Members of an organization cannot read its partner's record, so a function of the database hands out this part of it. */
export async function partnerSettings({ tx }: Context, partnerId: string): Promise<unknown> {
  const row = await tx
    .select<{ settings: unknown }[]>(
      tx.raw(
        `coalesce(
          (select p.settings -> 'agentUpdates' from partners p where p.id = :partnerId),
          partner_agent_updates(:partnerId)) as settings`,
        { partnerId },
      ),
    )
    .first();
  return row?.settings;
}

export const upgradeTimeline: TimelineSource = {
  kind: 'upgrade',
  from: 'device_upgrades t where t.device_id = :deviceId and t.org_id = :orgId',
  id: 't.id::text',
  at: 't.started_at',
  endedAt: 't.finished_at',
  fields: {
    component: 't.component',
    fromVersion: 't.from_version',
    toVersion: 't.target_version',
    state: 't.state',
    error: 't.error',
  },
};
