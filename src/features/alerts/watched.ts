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
export const AT_ONCE = 20_000;

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

/** Nobody is told of devices that somebody works on, or has put aside. */
const IN_SERVICE = `d.condition in ('normal', 'updating')`;
const NAME = `coalesce(nullif(d.display_name, ''), d.hostname)`;

const isGoneFor = (minutes: string) => `${GONE_AT} <= now() - make_interval(mins => ${minutes})`;

// The few thresholds that there are, of each the devices that have passed it since: a range of the index.
const JUST_PASSED = `
  from (select distinct minutes from organizations_told where minutes is not null) as threshold
  join device_presence p on p.state = 'disconnected' and ${isGoneFor('threshold.minutes')}
    and ${GONE_AT} > ${LAST_ROUND} - make_interval(mins => threshold.minutes)
  join devices d on d.id = p.device_id
  join organizations_told o on o.org_id = d.org_id and o.minutes = threshold.minutes`;
const ALL_PASSED = `
  from device_presence p
  join devices d on d.id = p.device_id
  join organizations_told o on o.org_id = d.org_id and ${isGoneFor('o.minutes')}
  where p.state = 'disconnected' and ${isGoneFor('(select min(minutes) from organizations_told)')}`;

/** Devices that are gone for longer than their organization's threshold, and of whom that was not told yet. */
export const raiseOffline = (isWhole: boolean): string =>
  raiseSql(`
    with organizations_told as materialized (${ORGANIZATIONS}),
    passed as (
      select d.id as device_id, d.org_id, ${NAME} as name, d.condition, ${GONE_AT} as gone_at, p.reason, p.last_seen_at,
        o.minutes ${isWhole ? ALL_PASSED : JUST_PASSED}
    )
    select d.org_id, d.device_id, '${OFFLINE}' as kind, 'high' as severity, d.name || ' is offline' as title,
      format('%s has not been connected since %s, which is more than %s.', d.name,
        to_char(d.gone_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'),
        case when d.minutes = 1 then '1 minute' else d.minutes || ' minutes' end) as message,
      jsonb_build_object('since', d.gone_at, 'reason', d.reason, 'lastSeenAt', d.last_seen_at,
        'thresholdMinutes', d.minutes) as details, true as cause_lasts
    from passed d
    left join alerts a on a.subject_id = d.device_id and a.kind = '${OFFLINE}' and ${STANDS('a')}
    where ${IN_SERVICE} and (a.id is null or a.last_at < d.gone_at)
      and (d.reason <> 'node_lost' or d.gone_at <= now() - make_interval(mins => ${LOST_NODE_MINUTES}))
    limit ${AT_ONCE}`);

const JUST_BACK = `
  from (
    select p.device_id from device_presence p where p.state = 'connected'
      and ${GONE_AT} <= now() - ${STAYS} and ${GONE_AT} > ${LAST_ROUND} - ${STAYS}
    union all
    select p.device_id from device_presence p where p.state = 'disconnected' and ${GONE_AT} > now()
  ) as p
  where`;
const ALL_BACK = `
  from device_presence p
  where (case when p.state = 'connected' then ${GONE_AT} <= now() - ${STAYS} else ${GONE_AT} > now() end) and`;

export const resolveOffline = (isWhole: boolean): string => `
  update alerts a set ${causeEndedSql(`'The device is connected again.'`)}
  ${isWhole ? ALL_BACK : JUST_BACK} p.device_id = a.subject_id and a.kind = '${OFFLINE}' and a.cause_lasts`;

/** Disks above their organization's threshold, as devices that are there have measured them lately. */
export const RAISE_DISK = raiseSql(`
  with organizations_told as materialized (${ORGANIZATIONS})
  select d.org_id, d.id as device_id, '${DISK}' as kind, 'high' as severity, 'Disk of ' || ${NAME} || ' is almost full' as title,
    format('The disk of %s is %s %% full; the threshold is %s %%.', ${NAME}, p.disk_over, o.disk_percent) as message,
    jsonb_build_object('diskPercent', p.disk_percent, 'thresholdPercent', o.disk_percent, 'at', p.metrics_at) as details,
    true as cause_lasts
  from device_presence p
  join devices d on d.id = p.device_id and ${IN_SERVICE}
  join organizations_told o on o.org_id = d.org_id and p.disk_over >= o.disk_percent
  where p.disk_over is not null and p.disk_over >= (select min(disk_percent) from organizations_told)
    and p.metrics_at > now() - ${FRESH}
    and not exists (
      select from alerts a where a.subject_id = d.id and a.kind = '${DISK}' and ${STANDS('a')})
  limit ${AT_ONCE}`);

export const RESOLVE_DISK = `
  update alerts a set ${causeEndedSql(`'The disk is ' || round(p.disk_percent::numeric) || ' % full.'`)}
  from device_presence p, (${ORGANIZATIONS}) o
  where a.kind = '${DISK}' and a.cause_lasts and p.device_id = a.subject_id and o.org_id = a.org_id
    and p.disk_percent < o.disk_percent - ${DISK_SLACK} and p.metrics_at > now() - ${FRESH}`;

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
