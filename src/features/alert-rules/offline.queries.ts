import { endCausesSql, notCoolingDown, raiseSql, SEVERITY_RANK, STANDS } from '../alerts/index.ts';
import {
  type Coverage,
  covered,
  inServiceDevice,
  LAST_ROUND,
  lookedUp,
  monitored,
} from './round-parts.queries.ts';

/**
 * The rules about offline devices, as SQL statements over the whole fleet. They have two forms. The incremental form
 * examines, by index, only what changed since the last round, so its cost does not depend on the size of the fleet. The
 * full form examines everything, including what the incremental form cannot see: changed rules, the end of maintenance, a
 * missed round.
 */

const OFFLINE = 'device_offline';

/** The maximum number of alerts that one statement raises; the next statement raises further ones. */
export const BATCH_SIZE = 50_000;

/** A device must be connected for this long before its alert is resolved, because it may disconnect again. */
const STABLE_FOR = `interval '2 minutes'`;
/** The devices of a lost node need this time to reconnect to other nodes. */
const LOST_NODE_MINUTES = 10;
/** Devices have this time after the end of a maintenance window to come back. */
const RETURN_TIME = `interval '10 minutes'`;

/** When the device was last reachable, by connection or by HTTP reports. An index of device_presence uses this expression. */
const GONE_AT = 'greatest(p.since, p.reports_until)';

/** SQL: the rules about offline devices, once for each organization that they cover. */
const offlineRules = (coverage: Coverage): string => `
  select r.id as rule_id, o.id as org_id, r.severity, r.target, r.auto_resolve, r.cooldown_minutes, r.created_at,
    (r.condition ->> 'forMinutes')::integer as minutes, ${SEVERITY_RANK('r')} as rank
  from alert_rules r join (${monitored(coverage)}) o
    on o.partner_id = r.partner_id and (r.org_id is null or r.org_id = o.id)
  where r.condition_kind = 'offline' and r.enabled`;

/** A time in the format of API responses. */
const iso = (time: string) => `to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** A number of minutes as a person would say it: 10080 are 7 days. */
const inWords = (minutes: string) => `case
  when ${minutes} % 1440 = 0 then ${counted(`${minutes} / 1440`, 'day')}
  when ${minutes} % 60 = 0 then ${counted(`${minutes} / 60`, 'hour')}
  else ${counted(minutes, 'minute')} end`;
const counted = (count: string, unit: string) =>
  `(${count}) || case when ${count} = 1 then ' ${unit}' else ' ${unit}s' end`;

const isGoneFor = (minutes: string) => `${GONE_AT} <= now() - make_interval(mins => ${minutes})`;

const PRESENCE_COLUMNS = `p.device_id, ${GONE_AT} as gone_at, p.reason, p.last_seen_at`;
const PRESENCE = `${PRESENCE_COLUMNS} from device_presence p`;

// For each distinct threshold, the devices that passed it since the last round: a range of the index.
const JUST_PASSED = `
  (select distinct minutes from rules) as threshold
  cross join ${lookedUp(`select ${PRESENCE} where p.state = 'disconnected' and ${isGoneFor('threshold.minutes')}
    and ${GONE_AT} > ${LAST_ROUND} - make_interval(mins => threshold.minutes)`)} p`;
// Devices whose time to come back after a maintenance window has ended since the last round. Their threshold passed before.
const JUST_DUE_BACK = `
  (select distinct m.device_id from maintenance_members m where m.suppress_alerts
    and m.ends_at <= now() - ${RETURN_TIME} and m.ends_at > ${LAST_ROUND} - ${RETURN_TIME}) as due
  cross join ${lookedUp(`select ${PRESENCE} where p.device_id = due.device_id and p.state = 'disconnected'`)} p`;
const JUST_OVERDUE = `
  (select p.* from ${JUST_PASSED} union all select p.* from ${JUST_DUE_BACK}) p`;
const ALL_PASSED = `
  (select ${PRESENCE} where p.state = 'disconnected' and ${isGoneFor('(select min(minutes) from rules)')}) p`;

/** Raises alerts for devices that are offline for longer than a rule allows: the worst of the rules whose time has passed. */
export const raiseOffline = (isWhole: boolean, coverage: Coverage = {}): string =>
  raiseSql(`
    with rules as materialized (${offlineRules(coverage)}),
    worst as materialized (select org_id, min(rank) as rank from rules group by org_id),
    unreported as materialized (
      select p.*, case when a.last_at >= p.gone_at then a.rank end as standing_rank
      from ${isWhole ? ALL_PASSED : JUST_OVERDUE}
      left join ${lookedUp(`select a.last_at, a.org_id, ${SEVERITY_RANK('a')} as rank from alerts a
        where a.subject_id = p.device_id and a.kind = '${OFFLINE}' and ${STANDS('a')}`)} a on true
      left join worst on worst.org_id = a.org_id
      where (a.last_at is null or a.last_at < p.gone_at or a.rank > worst.rank)
        and (p.reason <> 'node_lost' or p.gone_at <= now() - make_interval(mins => ${LOST_NODE_MINUTES}))
    ), in_service as materialized (
      select p.*, d.org_id, d.site_id, d.name from unreported p
      cross join ${inServiceDevice(RETURN_TIME)} d
    ), overdue as (
      select distinct on (p.device_id) p.*, r.rule_id, r.severity, r.minutes, r.auto_resolve, r.cooldown_minutes,
        '${OFFLINE}' as kind
      from in_service p join rules r on r.org_id = p.org_id and p.gone_at <= now() - make_interval(mins => r.minutes)
        and (p.standing_rank is null or r.rank < p.standing_rank)
        and target_covers(r.target, p.org_id, p.site_id, p.device_id)
      order by p.device_id, r.rank, r.minutes, r.created_at, r.rule_id
    )
    select p.org_id, p.device_id, p.kind, p.severity, p.name || ' is offline' as title,
      format('%s has not been connected since %s, which is more than %s.', p.name,
        to_char(p.gone_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'),
        ${inWords('p.minutes')}) as message,
      jsonb_build_object('since', ${iso('p.gone_at')}, 'reason', p.reason, 'lastSeenAt', ${iso('p.last_seen_at')},
        'thresholdMinutes', p.minutes) as details, true as cause_lasts, p.rule_id, p.auto_resolve
    from overdue p where ${notCoolingDown('p', 'p')}
    limit ${BATCH_SIZE}`);

const JUST_BACK = `
  select a.id from (
    select p.device_id from device_presence p where p.state = 'connected'
      and ${GONE_AT} <= now() - ${STABLE_FOR} and ${GONE_AT} > ${LAST_ROUND} - ${STABLE_FOR}
    union all
    select p.device_id from device_presence p where p.state = 'disconnected' and ${GONE_AT} > now()
  ) as p
  cross join ${lookedUp(`select a.id from alerts a
    where a.subject_id = p.device_id and a.kind = '${OFFLINE}' and a.cause_lasts`)} a`;
const ALL_BACK = `
  select a.id from alerts a
  cross join ${lookedUp(`select from device_presence p where p.device_id = a.subject_id
    and case when p.state = 'connected' then ${GONE_AT} <= now() - ${STABLE_FOR} else ${GONE_AT} > now() end`)} p
  where a.kind = '${OFFLINE}' and a.cause_lasts`;

export const resolveOffline = (isWhole: boolean, coverage: Coverage = {}): string =>
  endCausesSql(
    `'The device is connected again.'`,
    `where a.id = any(array(${isWhole ? ALL_BACK : JUST_BACK})) ${covered('a.org_id', coverage)}`,
  );

/**
 * SQL: the enabled rules about offline devices that cover an organization `o`. Looked up by index, because the planner may
 * not know yet how many alerts there are.
 */
const OFFLINE_RULES_OF_O = `from alert_rules r where r.condition_kind = 'offline' and r.enabled
          and coalesce(r.org_id, r.partner_id) = any(array[o.id, o.partner_id])`;

/** Resolves alerts about offline devices that are out of service, and those that no rule stands behind any more. */
export const resolveUnwatched = (coverage: Coverage = {}): string[] => [
  endCausesSql(
    `'The device is out of service.'`,
    `from devices d
    where a.kind = '${OFFLINE}' and a.cause_lasts and d.id = a.subject_id and d.condition = 'decommissioned'
      ${covered('a.org_id', coverage)}`,
  ),
  // Most organizations have a rule for all of their devices, and no alert of theirs is looked at.
  `with partly as materialized (
    select o.* from (${monitored(coverage)}) o
    where not exists (select ${OFFLINE_RULES_OF_O} and jsonb_exists(r.target, 'all')))
  ${endCausesSql(
    `'No alert rule watches for this any more.'`,
    `from partly o, devices d
    where a.kind = '${OFFLINE}' and a.cause_lasts and o.id = a.org_id and d.id = a.subject_id
      and not exists (select ${OFFLINE_RULES_OF_O} and target_covers(r.target, a.org_id, d.site_id, d.id))`,
  )}`,
];
