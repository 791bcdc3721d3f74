import type { Tx } from '../../platform/db/transaction.ts';
import { UPGRADE_CAPABILITY } from '../../protocol/index.ts';
import type { AgentRelease } from '../releases/index.ts';
import {
  effectiveSettings,
  parseStored,
  type Platform,
  placesOf,
  type LiveRollout,
  PLACES,
} from './resolve-target.ts';
import type { Outcomes } from './next-step.ts';
import { AgentRollout } from './upgrade.model.ts';
import type { PinnedComponent, AttemptState, EffectiveSettings } from './upgrade.schema.ts';

/** The newest rollout of each component that was not aborted: an ended one still says what its devices should run. */
export async function liveRollouts(tx: Tx): Promise<LiveRollout[]> {
  const rollouts = await AgentRollout.query(tx)
    .distinctOn('component')
    .whereNot('state', 'aborted')
    .orderBy([
      { column: 'component' },
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ]);
  return rollouts.map(asLive);
}

/** Whether the newest rollout of the component is of this version. */
export async function isRolledOut(
  tx: Tx,
  { component, version }: Pick<AgentRelease, 'component' | 'version'>,
): Promise<boolean> {
  const rollouts = await liveRollouts(tx);
  return rollouts.some((one) => one.component === component && one.version === version);
}

const asLive = (rollout: AgentRollout): LiveRollout => ({
  id: rollout.id,
  component: rollout.component,
  version: rollout.version,
  reachedPercent: rollout.state === 'paused' ? 0 : percentThrough(rollout.waves, rollout.wave),
  isHalted: rollout.state === 'halted',
  firstDevices: new Set(rollout.firstDevices),
});

/** The share of the fleet in the first waves up to `last`. Whole places are added, because sums of decimals are not exact. */
export function percentThrough(waves: readonly { percent: number }[], last: number): number {
  const places = waves.slice(0, last + 1).reduce((sum, { percent }) => sum + placesOf(percent), 0);
  return (places * 100) / PLACES;
}

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

/**
 * How the upgrades of a rollout ended since it was started or resumed, by its rows of device_upgrades alone. What counts
 * of a device is the end of its latest attempt that has ended, so a device that fails again and again counts once.
 */

type Judged = Pick<AgentRollout, 'id' | 'judgedFrom'>;

const ENDED = `
  ended as materialized (
    select distinct on (device_id) device_id, org_id, state = 'completed' as is_healthy, finished_at
    from device_upgrades
    where rollout_id = cast(:id as uuid) and finished_at >= cast(:judgedFrom as timestamptz)
    order by device_id, finished_at desc, id desc
  ), in_order as (
    -- Devices that ended alike, one after another, have the same difference.
    select *, row_number() over (order by finished_at, device_id)
      - row_number() over (partition by is_healthy order by finished_at, device_id) as run
    from ended
  ), runs as (
    select run, count(*)::integer as length, min(finished_at) as began_at
    from in_order where not is_healthy group by run
  )`;

export async function readOutcomes(tx: Tx, { id, judgedFrom }: Judged): Promise<Outcomes> {
  const { rows } = await tx.raw<{ rows: [Outcomes] }>(
    `with ${ENDED}
    select count(*) filter (where is_healthy)::integer as healthy,
      count(*) filter (where not is_healthy)::integer as failed,
      coalesce((select max(length) from runs), 0) as "failuresInARow",
      (select count(distinct device_id)::integer from device_upgrades
        where rollout_id = cast(:id as uuid) and state not in ('offered', 'completed', 'failed', 'rolled_back')
      ) as "underWay"
    from ended`,
    { id, judgedFrom },
  );
  return rows[0];
}

/** The devices that failed, the last ones first; or those of the first long sequence of failures. */
export async function failedDevices(
  tx: Tx,
  { id, judgedFrom }: Judged,
  { inARow }: { inARow: boolean },
): Promise<NamedDevice[]> {
  const { rows } = await tx.raw<{ rows: NamedDevice[] }>(
    `with ${ENDED}
    select d.id as "deviceId", d.org_id as "orgId", coalesce(nullif(d.display_name, ''), d.hostname) as name
    from in_order o join devices d on d.id = o.device_id
    where not o.is_healthy
      ${inARow ? 'and o.run = (select run from runs order by length desc, began_at limit 1)' : ''}
    order by o.finished_at desc, d.id`,
    { id, judgedFrom },
  );
  return rows;
}

/** Organizations whose devices are upgraded alike: they differ in nothing that decides about a component. */
export interface SettingsClass {
  settings: EffectiveSettings;
  orgIds: string[];
}

/**
 * The organizations that take part in rollouts, which are those with the policy `staged`. There are as many classes as
 * there are different pins and windows, so that devices can be counted by class instead of one by one.
 */
export async function stagedOrganizations(tx: Tx, component: PinnedComponent): Promise<SettingsClass[]> {
  const { rows } = await tx.raw<{ rows: StoredSettings[] }>(
    `select o.id as "orgId", o.settings -> 'agentUpdates' as organization, p.settings -> 'agentUpdates' as partner
    from organizations o join partners p on p.id = o.partner_id
    where o.deleted_at is null and p.deleted_at is null
      and 'staged' in (o.settings #>> '{agentUpdates,policy}', p.settings #>> '{agentUpdates,policy}')`,
  );
  const classes = new Map<string, SettingsClass>();
  for (const { orgId, organization, partner } of rows) {
    const settings = effectiveSettings({
      organization: parseStored(organization),
      partner: parseStored(partner),
    });
    if (settings.policy.value !== 'staged') continue;
    const key = JSON.stringify([settings.pins[component].value, settings.maintenanceWindow.value]);
    const alike = classes.get(key);
    if (alike === undefined) classes.set(key, { settings, orgIds: [orgId] });
    else alike.orgIds.push(orgId);
  }
  return [...classes.values()];
}

interface StoredSettings {
  orgId: string;
  organization: unknown;
  partner: unknown;
}

/** So many devices of each platform belong to the first wave, if the platform has as many. */
const EACH_PLATFORM = 3;

interface FirstWave {
  /** How many places hold the number of devices that was asked for. */
  places: number;
  /** Some devices of each platform. */
  devices: string[];
}

/** Chooses the first wave among the devices of these groups. */
export async function chooseFirstWave(
  tx: Tx,
  { id, component }: { id: string; component: PinnedComponent },
  {
    classes,
    groups,
    size,
  }: { classes: readonly SettingsClass[]; groups: readonly DeviceGroup[]; size: number },
): Promise<FirstWave> {
  const version = VERSION_COLUMN[component];
  const { rows } = await tx.raw<{ rows: [FirstWave] }>(
    `with members as (
      select d.id, d.os_type, d.architecture, rollout_place(cast(:id as uuid), d.id) as place
      from unnest(cast(:orgIds as uuid[]), cast(:orgClasses as integer[])) as c (org_id, class)
      join devices d on d.org_id = c.org_id and d.condition <> 'decommissioned'
        and d.auto_update and cast(:capability as text) = any(d.capabilities)
      where (c.class, d.os_type, d.architecture, ${version}) in (
        select * from unnest(cast(:classes as integer[]), cast(:osTypes as text[]), cast(:architectures as text[]),
          cast(:versions as text[])))
    ), ranked as (
      select id, place, row_number() over (order by place, id) as rank,
        row_number() over (partition by os_type, architecture order by place, id) as rank_on_platform
      from members
    )
    select coalesce(max(place) filter (where rank <= :size), 0) + 1 as places,
      coalesce(array_agg(id order by place, id) filter (where rank_on_platform <= ${EACH_PLATFORM}), '{}') as devices
    from ranked`,
    {
      id,
      size,
      capability: UPGRADE_CAPABILITY,
      orgIds: classes.flatMap(({ orgIds }) => orgIds),
      orgClasses: classes.flatMap(({ orgIds }, at) => orgIds.map(() => at)),
      classes: groups.map(({ settingsClass }) => settingsClass),
      osTypes: groups.map(({ osType }) => osType),
      architectures: groups.map(({ architecture }) => architecture),
      versions: groups.map(({ current }) => current),
    },
  );
  return rows[0];
}

export async function currentTime(tx: Tx): Promise<Date> {
  const { rows } = await tx.raw<{ rows: [{ now: Date }] }>('select now() as now');
  return rows[0].now;
}
