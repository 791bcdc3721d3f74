import type { Tx } from '../../../platform/db/transaction.ts';
import { percentThrough } from '../rollouts/live-rollouts.ts';
import type { AgentRollout } from '../rollouts/rollout.model.ts';
import { placesOf } from '../rollouts/wave.ts';
import type { Platform } from '../targets/target-question.ts';
import { UPGRADE_CAPABILITY } from '../../../protocol/index.ts';
import type { PinnedComponent } from '../targets/target.schema.ts';
import type { AttemptState } from '../upgrades/upgrade.schema.ts';
import type { SettingsClass } from './staged-organizations.ts';

/** Devices in a rollout that nothing tells apart, counted by the database. */
export interface DeviceGroup extends Platform {
  /** Index into the settings classes. */
  settingsClass: number;
  /** The version that they report. */
  current: string;
  autoUpdate: boolean;
  isCapable: boolean;
  connected: boolean;
  /** The wave that they belong to, from 0; beyond the last one for devices that no wave reaches. */
  wave: number;
  /** How far the latest attempt in this rollout has come. */
  attempt: AttemptState | null;
  /** Whether an attempt in this rollout has ended. */
  hasFinished: boolean;
  /** Whether they were connected since the wave was opened. */
  isReachable: boolean;
  /** How they count for silence, if they do. */
  silence: 'upgraded' | 'upgraded_silent' | 'others' | 'others_silent' | null;
  devices: number;
}

/** The part of a rollout by which its devices are counted. */
export type CountedRollout = Pick<
  AgentRollout,
  'id' | 'component' | 'waves' | 'firstDevices' | 'waveOpenedAt' | 'judgedFrom' | 'silentMinutes'
>;

/** The version of a component that a device reports. */
export const VERSION_COLUMN: Record<PinnedComponent, string> = {
  agent: 'd.agent_version',
  watchdog: 'd.watchdog_version',
};

/** The last sign of life. A device that is connected, or reports over HTTP, gives one now. */
const HEARD_AT = `case when p.state = 'connected' or p.reports_until > cast(:now as timestamptz)
  then cast(:now as timestamptz) else p.last_seen_at end`;

/** From here on it is the new version that runs, or fails to. */
const RUNS_NEW_VERSION = `a.state in ('installing', 'restarting', 'trial', 'completed')`;
const SILENT_SINCE = `cast(:now as timestamptz) - make_interval(mins => cast(:silentMinutes as integer))`;
const IS_SILENT = `coalesce(f.heard_at < ${SILENT_SINCE}, true)`;

/** The latest attempt of each device in the rollout, and how the device counts for silence. */
const FLEET = (version: string) => `
  with attempts as (
    select distinct on (u.device_id) u.device_id, u.state, coalesce(u.finished_at, u.updated_at) as at,
      bool_or(u.finished_at is not null) over (partition by u.device_id) as has_finished
    from device_upgrades u where u.rollout_id = cast(:id as uuid)
    order by u.device_id, u.started_at desc, u.id desc
  ), fleet as (
    select d.id, d.org_id, c.class, d.os_type, d.architecture, ${version} as version, d.auto_update,
      cast(:capability as text) = any(d.capabilities) as is_capable, coalesce(p.state = 'connected', false) as connected,
      coalesce(nullif(d.display_name, ''), d.hostname) as name, ${HEARD_AT} as heard_at
    from unnest(cast(:orgIds as uuid[]), cast(:classes as integer[])) as c (org_id, class)
    join devices d on d.org_id = c.org_id and d.condition <> 'decommissioned' and ${version} is not null
    left join device_presence p on p.device_id = d.id
  ), judged as (
    select f.*, a.state as attempt, coalesce(a.has_finished, false) as has_finished,
      case
        when ${RUNS_NEW_VERSION} and a.at between cast(:judgedFrom as timestamptz) and ${SILENT_SINCE}
          then case when ${IS_SILENT} then 'upgraded_silent' else 'upgraded' end
        when a.device_id is null and f.heard_at >= cast(:judgedFrom as timestamptz)
          then case when ${IS_SILENT} then 'others_silent' else 'others' end
      end as silence
    from fleet f left join attempts a on a.device_id = f.id
  )`;

/** Counts the devices of a rollout in one statement, whatever the size of the fleet. */
export async function countDevices(
  tx: Tx,
  rollout: CountedRollout,
  { classes, now }: { classes: readonly SettingsClass[]; now: Date },
): Promise<DeviceGroup[]> {
  const { rows } = await tx.raw<{ rows: DeviceGroup[] }>(
    `${FLEET(VERSION_COLUMN[rollout.component])}
    select class as "settingsClass", os_type as "osType", architecture, version as current,
      auto_update as "autoUpdate", is_capable as "isCapable", connected,
      case when id = any(cast(:firstDevices as uuid[])) then 0
        else width_bucket(rollout_place(cast(:id as uuid), id), cast(:bounds as integer[])) end as wave,
      attempt, has_finished as "hasFinished",
      coalesce(heard_at >= cast(:waveOpenedAt as timestamptz), false) as "isReachable", silence,
      count(*)::integer as devices
    from judged
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12`,
    bindings(rollout, { classes, now }),
  );
  return rows;
}

export interface NamedDevice {
  deviceId: string;
  orgId: string;
  name: string;
}

/** The devices that run the new version, or should, and are not heard of. */
export async function silentDevices(
  tx: Tx,
  rollout: CountedRollout,
  { classes, now }: { classes: readonly SettingsClass[]; now: Date },
): Promise<NamedDevice[]> {
  const { rows } = await tx.raw<{ rows: NamedDevice[] }>(
    `${FLEET(VERSION_COLUMN[rollout.component])}
    select id as "deviceId", org_id as "orgId", name from judged where silence = 'upgraded_silent'
    order by heard_at nulls first, id`,
    bindings(rollout, { classes, now }),
  );
  return rows;
}

function bindings(
  { id, waves, firstDevices, waveOpenedAt, judgedFrom, silentMinutes }: CountedRollout,
  { classes, now }: { classes: readonly SettingsClass[]; now: Date },
) {
  return {
    id,
    now,
    waveOpenedAt,
    judgedFrom,
    silentMinutes,
    firstDevices,
    capability: UPGRADE_CAPABILITY,
    bounds: waves.map((_wave, at) => placesOf(percentThrough(waves, at))),
    orgIds: classes.flatMap(({ orgIds }) => orgIds),
    classes: classes.flatMap(({ orgIds }, at) => orgIds.map(() => at)),
  };
}
