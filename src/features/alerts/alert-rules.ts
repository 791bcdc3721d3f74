import { DISK_PERCENT_SQL, OFFLINE_AFTER_SQL } from './alert-settings.service.ts';
import { causeEndedSql, raiseSql, STANDS } from './raise.ts';

/**
 * What the server watches of its devices, as statements about the whole fleet. Each comes in two forms. The short one
 * looks at what has changed since the last round, by index, however many devices there are; the whole one at all that
 * could matter, for what the short one cannot see: other settings, an end of maintenance, a time that was missed.
 */

export const OFFLINE = 'device_offline';
export const DISK = 'disk_full';

/** Raised at once at most; the rest of them follows in the next statement. */
export const BATCH_SIZE = 10_000;

/** A device that has only just come may go again; until then its alert stands. */
const STAYS = `interval '2 minutes'`;
/** Rounds overlap by what clocks of nodes may differ, and presence is written late. */
const OVERLAP = `interval '2 minutes'`;
/** What a node that is lost held comes back elsewhere, which takes the fleet some time. */
const LOST_NODE_MINUTES = 10;
/** How old a measurement may be. */
const FRESH = `interval '15 minutes'`;
/** So much below the threshold a disk must come. */
const DISK_SLACK = 5;

/** Since when it has been seen neither by a connection nor by reports without one: as device_presence is indexed. */
const GONE_AT = 'greatest(p.since, p.reports_until)';

const LAST_ROUND = `(select through - ${OVERLAP} from alert_rounds)`;

/** Organizations in which anything is raised, and for what. Suspended ones are not among them. */
const ORGANIZATIONS = `
  select o.id as org_id, ${OFFLINE_AFTER_SQL} as minutes, ${DISK_PERCENT_SQL} as disk_percent
  from organizations o join partners on partners.id = o.partner_id left join alert_settings s on s.org_id = o.id
  where o.deleted_at is null and o.status in ('active', 'trial')
    and partners.deleted_at is null and partners.status = 'active'`;

/** As times are in answers. */
const iso = (time: string) => `to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const isGoneFor = (minutes: string) => `${GONE_AT} <= now() - make_interval(mins => ${minutes})`;

/**
 * The planner cannot know how few devices a range of time holds, and would read all of them to join them at once. The
 * `offset 0` keeps what is behind `lateral` as it stands: looked up by index, for each row of what is before it.
 */
const lookedUp = (query: string) => `lateral (${query} offset 0)`;

/** Nobody is told of devices that somebody works on, or has put aside. */
const IN_SERVICE_DEVICE = lookedUp(`select d.org_id, coalesce(nullif(d.display_name, ''), d.hostname) as name
  from devices d where d.id = p.device_id and d.condition in ('normal', 'updating')`);

const PRESENCE = `p.device_id, ${GONE_AT} as gone_at, p.reason, p.last_seen_at from device_presence p`;

// The few thresholds that there are, of each the devices that have passed it since: a range of the index.
const JUST_PASSED = `
  (select distinct minutes from monitored where minutes is not null) as threshold
  cross join ${lookedUp(`select ${PRESENCE} where p.state = 'disconnected' and ${isGoneFor('threshold.minutes')}
    and ${GONE_AT} > ${LAST_ROUND} - make_interval(mins => threshold.minutes)`)} p`;
const ALL_PASSED = `
  (select ${PRESENCE}
    where p.state = 'disconnected' and ${isGoneFor('(select min(minutes) from monitored)')}) p`;

/** Devices that are gone for longer than their organization's threshold, and of whom that was not told yet. */
export const raiseOffline = (isWhole: boolean): string =>
  raiseSql(`
    with monitored as materialized (${ORGANIZATIONS}),
    unreported as materialized (
      select p.*, ${isWhole ? 'null::integer' : 'threshold.minutes'} as passed from ${isWhole ? ALL_PASSED : JUST_PASSED}
      left join ${lookedUp(`select a.last_at from alerts a
        where a.subject_id = p.device_id and a.kind = '${OFFLINE}' and ${STANDS('a')}`)} a on true
      where (a.last_at is null or a.last_at < p.gone_at)
        and (p.reason <> 'node_lost' or p.gone_at <= now() - make_interval(mins => ${LOST_NODE_MINUTES}))
    ), in_service as materialized (
      select p.*, d.org_id, d.name from unreported p
      cross join ${IN_SERVICE_DEVICE} d
    )
    select p.org_id, p.device_id, '${OFFLINE}' as kind, 'high' as severity, p.name || ' is offline' as title,
      format('%s has not been connected since %s, which is more than %s.', p.name,
        to_char(p.gone_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'),
        case when o.minutes = 1 then '1 minute' else o.minutes || ' minutes' end) as message,
      jsonb_build_object('since', ${iso('p.gone_at')}, 'reason', p.reason, 'lastSeenAt', ${iso('p.last_seen_at')},
        'thresholdMinutes', o.minutes) as details, true as cause_lasts
    from in_service p
    join monitored o on o.org_id = p.org_id and coalesce(p.passed = o.minutes, true)
      and p.gone_at <= now() - make_interval(mins => o.minutes)
    limit ${BATCH_SIZE}`);

const JUST_BACK = `
  select a.id from (
    select p.device_id from device_presence p where p.state = 'connected'
      and ${GONE_AT} <= now() - ${STAYS} and ${GONE_AT} > ${LAST_ROUND} - ${STAYS}
    union all
    select p.device_id from device_presence p where p.state = 'disconnected' and ${GONE_AT} > now()
  ) as p
  cross join ${lookedUp(`select a.id from alerts a
    where a.subject_id = p.device_id and a.kind = '${OFFLINE}' and a.cause_lasts`)} a`;
const ALL_BACK = `
  select a.id from alerts a
  cross join ${lookedUp(`select from device_presence p where p.device_id = a.subject_id
    and case when p.state = 'connected' then ${GONE_AT} <= now() - ${STAYS} else ${GONE_AT} > now() end`)} p
  where a.kind = '${OFFLINE}' and a.cause_lasts`;

export const resolveOffline = (isWhole: boolean): string => `
  update alerts a set ${causeEndedSql(`'The device is connected again.'`)}
  where a.id = any(array(${isWhole ? ALL_BACK : JUST_BACK}))`;

/** Disks above their organization's threshold, as devices that are there have measured them lately. */
export const RAISE_DISK = raiseSql(`
  with monitored as materialized (${ORGANIZATIONS}),
  unreported as materialized (
    select p.device_id, p.disk_over, p.disk_percent, p.metrics_at from device_presence p
    left join ${lookedUp(`select a.id from alerts a
      where a.subject_id = p.device_id and a.kind = '${DISK}' and ${STANDS('a')}`)} a on true
    where p.disk_over is not null and p.disk_over >= (select min(disk_percent) from monitored)
      and p.metrics_at > now() - ${FRESH} and a.id is null
  ), in_service as materialized (
    select p.*, d.org_id, d.name from unreported p cross join ${IN_SERVICE_DEVICE} d
  )
  select p.org_id, p.device_id, '${DISK}' as kind, 'high' as severity, 'Disk of ' || p.name || ' is almost full' as title,
    format('The disk of %s is %s %% full; the threshold is %s %%.', p.name, p.disk_over, o.disk_percent) as message,
    jsonb_build_object('diskPercent', p.disk_percent, 'thresholdPercent', o.disk_percent, 'at', ${iso('p.metrics_at')}) as details,
    true as cause_lasts
  from in_service p join monitored o on o.org_id = p.org_id and p.disk_over >= o.disk_percent
  limit ${BATCH_SIZE}`);

export const RESOLVE_DISK = `
  update alerts a set ${causeEndedSql(`'The disk is ' || round(well.disk_percent::numeric) || ' % full.'`)}
  from (
    select a.id, p.disk_percent from alerts a
    join (${ORGANIZATIONS}) o on o.org_id = a.org_id
    cross join ${lookedUp(`select p.disk_percent from device_presence p where p.device_id = a.subject_id
      and p.disk_percent < o.disk_percent - ${DISK_SLACK} and p.metrics_at > now() - ${FRESH}`)} p
    where a.kind = '${DISK}' and a.cause_lasts
    offset 0
  ) as well
  where a.id = well.id`;

/** What nobody watches any more. */
export const RESOLVE_UNWATCHED = [
  `update alerts a set ${causeEndedSql(`'The device is out of service.'`)}
  from devices d
  where a.kind in ('${OFFLINE}', '${DISK}') and a.cause_lasts and d.id = a.subject_id and d.condition = 'decommissioned'`,
  `update alerts a set ${causeEndedSql(`'Alerts of this kind were switched off.'`)}
  from (${ORGANIZATIONS}) o
  where a.cause_lasts and o.org_id = a.org_id
    and case a.kind when '${OFFLINE}' then o.minutes is null when '${DISK}' then o.disk_percent is null end`,
];
