import { clock } from '../../../clock.ts';
import type { UpgradeHistory, UpgradeReport } from '../../../hub/ports.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import { DeviceModel, setUpdating } from '../../devices/index.ts';
import type { PinnedComponent } from '../targets/target.schema.ts';
import { afterReport, type Attempt } from './attempts.ts';
import { DeviceUpgrade } from './device-upgrade.model.ts';
import { announceOutcomes } from './upgrade-alerts.ts';

/** More of a device than any report can be about, unless it names an older attempt. */
const NEWEST = 30;
const KEPT_PER_DEVICE = 100;
const UPDATING_MINUTES = 5;

export interface ReportingDevice
  extends Pick<
    DeviceModel,
    'id' | 'orgId' | 'hostname' | 'displayName' | 'agentVersion' | 'watchdogVersion' | 'condition'
  > {}

/** Says in which rollout a device of an organization gets a version, if it does. */
type RolloutOf = (orgId: string, component: PinnedComponent, version: string) => string | null;

/** Writes what devices report into the history of their upgrades, and shows by their status that they are updating. */
export const createUpgradeHistory = (db: Db, rolloutOf: RolloutOf): UpgradeHistory => ({
  record: (reports) =>
    withSystem(db, 'record what devices report about their upgrades', async (tx) => {
      const devices = await lockDevices(tx, reports);
      const before = await attemptsOf(tx, reports);
      const after = new Map(before);
      for (const { deviceId, ...report } of reports) {
        const device = devices.get(deviceId);
        if (device === undefined) continue;
        const { component, targetVersion } = report;
        const circumstances = {
          now: clock.date(),
          newId,
          current: component === 'agent' ? device.agentVersion : device.watchdogVersion,
          rolloutId: rolloutOf(device.orgId, component, targetVersion),
        };
        after.set(deviceId, afterReport(after.get(deviceId) ?? [], report, circumstances));
      }
      const changed = [...devices.values()].flatMap((device) => {
        const known = new Set(before.get(device.id));
        const attempts = (after.get(device.id) ?? []).filter((attempt) => !known.has(attempt));
        return attempts.map((attempt) => ({ device, attempt }));
      });
      if (changed.length === 0) return [];
      await write(tx, changed);
      await announceOutcomes(tx, changed);
      return showUpdating(tx, [...new Set(changed.map(({ device }) => device.id))]);
    }),
});

/** Locked in the order of their ids, as every change of many devices does; two servers write about a device in turn. */
async function lockDevices(tx: Tx, reports: readonly UpgradeReport[]): Promise<Map<string, ReportingDevice>> {
  const rows = await DeviceModel.query(tx)
    .whereRaw('id = any(?::uuid[])', [reports.map(({ deviceId }) => deviceId)])
    .whereNot('condition', 'decommissioned')
    .orderBy('id')
    .forNoKeyUpdate()
    .select('id', 'org_id', 'hostname', 'display_name', 'agent_version', 'watchdog_version', 'condition');
  return new Map(rows.map((row) => [row.id, row]));
}

/** By device, newest first. */
async function attemptsOf(
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

async function write(tx: Tx, changes: readonly Change[]): Promise<void> {
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
