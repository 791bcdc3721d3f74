import type { Tx } from '../../platform/db/transaction.ts';
import { DISK_PERCENT_SQL, OFFLINE_AFTER_SQL, causeEndedSql, raiseSql, STANDS } from './alert.queries.ts';

/**
 * The rules that raise and resolve alerts, as SQL statements over the whole fleet. The rules for offline devices have two
 * forms. The incremental form examines, by index, only what changed since the last round, so its cost does not depend on
 * the size of the fleet. The full form examines everything, including what the incremental form cannot see: changed
 * settings, the end of maintenance, a missed round.
 */

/** The organizations that a statement covers: one, or all except some. */
export interface Coverage {
  only?: string;
  except?: readonly string[];
}

/** SQL that limits `column` to the covered organizations, with the fields of the coverage as named bindings. */
const covered = (column: string, { only, except = [] }: Coverage): string => {
  if (only !== undefined) return `and ${column} = cast(:only as uuid)`;
  return except.length === 0 ? '' : `and ${column} <> all(cast(:except as uuid[]))`;
};

export const OFFLINE = 'device_offline';
export const DISK = 'disk_full';

/** The maximum number of alerts that one statement raises; the next statement raises further ones. */
export const BATCH_SIZE = 10_000;

/** A device must be connected for this long before its alert is resolved, because it may disconnect again. */
const STABLE_FOR = `interval '2 minutes'`;
/** Rounds overlap to allow for clock differences between nodes and for presence that is written late. */
const OVERLAP = `interval '2 minutes'`;
/** The devices of a lost node need this time to reconnect to other nodes. */
const LOST_NODE_MINUTES = 10;
/** The maximum age of a measurement. */
const FRESH = `interval '15 minutes'`;
/** A disk alert is resolved this many percentage points below the threshold. */
const DISK_SLACK = 5;
/** Devices have this time after the end of a maintenance window to come back. */
const RETURN_TIME = `interval '10 minutes'`;
const NO_TIME = `interval '0'`;

/** When the device was last reachable, by connection or by HTTP reports. An index of device_presence uses this expression. */
const GONE_AT = 'greatest(p.since, p.reports_until)';

const LAST_ROUND = `(select through - ${OVERLAP} from alert_rounds)`;

/** Organizations for which alerts are raised, with their thresholds. Suspended ones are excluded. */
const monitored = (coverage: Coverage): string => `
  select o.id as org_id, ${OFFLINE_AFTER_SQL} as minutes, ${DISK_PERCENT_SQL} as disk_percent
  from organizations o join partners on partners.id = o.partner_id left join alert_settings s on s.org_id = o.id
  where o.deleted_at is null and o.status in ('active', 'trial')
    and partners.deleted_at is null and partners.status = 'active' ${covered('o.id', coverage)}`;

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

/**
 * Forces a lookup by index for each outer row. The planner cannot know how few devices a time range contains and would
 * otherwise read whole tables to join them; `offset 0` keeps the lateral subquery from being merged into a join.
 */
const lookedUp = (query: string) => `lateral (${query} offset 0)`;

/**
 * No alerts are raised for devices in maintenance or quarantine.
 * @param after  for how long a maintenance window counts after its end
 */
const inServiceDevice = (after: string) =>
  lookedUp(`select d.org_id, coalesce(nullif(d.display_name, ''), d.hostname) as name
  from devices d where d.id = p.device_id and d.condition in ('normal', 'updating')
    and not exists (select from maintenance_members m where m.org_id = d.org_id and m.device_id = d.id
      and m.suppress_alerts and m.starts_at <= now() and m.ends_at > now() - ${after})`);

const PRESENCE_COLUMNS = `p.device_id, ${GONE_AT} as gone_at, p.reason, p.last_seen_at`;
const PRESENCE = `${PRESENCE_COLUMNS} from device_presence p`;

// For each distinct threshold, the devices that passed it since the last round: a range of the index.
const JUST_PASSED = `
  (select distinct minutes from monitored where minutes is not null) as threshold
  cross join ${lookedUp(`select ${PRESENCE} where p.state = 'disconnected' and ${isGoneFor('threshold.minutes')}
    and ${GONE_AT} > ${LAST_ROUND} - make_interval(mins => threshold.minutes)`)} p`;
// Devices whose time to come back after a maintenance window has ended since the last round. Their threshold passed before.
const JUST_DUE_BACK = `
  (select distinct m.device_id from maintenance_members m where m.suppress_alerts
    and m.ends_at <= now() - ${RETURN_TIME} and m.ends_at > ${LAST_ROUND} - ${RETURN_TIME}) as due
  cross join ${lookedUp(`select ${PRESENCE} where p.device_id = due.device_id and p.state = 'disconnected'`)} p`;
const JUST_OVERDUE = `
  (select p.*, threshold.minutes as passed from ${JUST_PASSED}
    union all select p.*, null::integer from ${JUST_DUE_BACK}) p`;
const ALL_PASSED = `
  (select ${PRESENCE_COLUMNS}, null::integer as passed from device_presence p
    where p.state = 'disconnected' and ${isGoneFor('(select min(minutes) from monitored)')}) p`;

/** Raises alerts for devices that are offline for longer than the threshold of their organization. */
export const raiseOffline = (isWhole: boolean, coverage: Coverage = {}): string =>
  raiseSql(`
    with monitored as materialized (${monitored(coverage)}),
    unreported as materialized (
      select p.* from ${isWhole ? ALL_PASSED : JUST_OVERDUE}
      left join ${lookedUp(`select a.last_at from alerts a
        where a.subject_id = p.device_id and a.kind = '${OFFLINE}' and ${STANDS('a')}`)} a on true
      where (a.last_at is null or a.last_at < p.gone_at)
        and (p.reason <> 'node_lost' or p.gone_at <= now() - make_interval(mins => ${LOST_NODE_MINUTES}))
    ), in_service as materialized (
      select p.*, d.org_id, d.name from unreported p
      cross join ${inServiceDevice(RETURN_TIME)} d
    )
    ${isWhole ? 'select' : 'select distinct on (p.device_id)'} p.org_id, p.device_id, '${OFFLINE}' as kind, 'high' as severity, p.name || ' is offline' as title,
      format('%s has not been connected since %s, which is more than %s.', p.name,
        to_char(p.gone_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'),
        ${inWords('o.minutes')}) as message,
      jsonb_build_object('since', ${iso('p.gone_at')}, 'reason', p.reason, 'lastSeenAt', ${iso('p.last_seen_at')},
        'thresholdMinutes', o.minutes) as details, true as cause_lasts
    from in_service p
    join monitored o on o.org_id = p.org_id and coalesce(p.passed = o.minutes, true)
      and p.gone_at <= now() - make_interval(mins => o.minutes)
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

export const resolveOffline = (isWhole: boolean, coverage: Coverage = {}): string => `
  update alerts a set ${causeEndedSql(`'The device is connected again.'`)}
  where a.id = any(array(${isWhole ? ALL_BACK : JUST_BACK})) ${covered('a.org_id', coverage)}`;

/** Raises alerts for disks above the threshold of their organization, from recent measurements. */
export const raiseDisk = (coverage: Coverage = {}): string =>
  raiseSql(`
  with monitored as materialized (${monitored(coverage)}),
  unreported as materialized (
    select p.device_id, p.disk_over, p.disk_percent, p.metrics_at from device_presence p
    left join ${lookedUp(`select a.id from alerts a
      where a.subject_id = p.device_id and a.kind = '${DISK}' and ${STANDS('a')}`)} a on true
    where p.disk_over is not null and p.disk_over >= (select min(disk_percent) from monitored)
      and p.metrics_at > now() - ${FRESH} and a.id is null
  ), in_service as materialized (
    select p.*, d.org_id, d.name from unreported p cross join ${inServiceDevice(NO_TIME)} d
  )
  select p.org_id, p.device_id, '${DISK}' as kind, 'high' as severity, 'Disk of ' || p.name || ' is almost full' as title,
    format('The disk of %s is %s %% full; the threshold is %s %%.', p.name, p.disk_over, o.disk_percent) as message,
    jsonb_build_object('diskPercent', p.disk_percent, 'thresholdPercent', o.disk_percent, 'at', ${iso('p.metrics_at')}) as details,
    true as cause_lasts
  from in_service p join monitored o on o.org_id = p.org_id and p.disk_over >= o.disk_percent
  limit ${BATCH_SIZE}`);

export const resolveDisk = (coverage: Coverage = {}): string => `
  update alerts a set ${causeEndedSql(`'The disk is ' || round(well.disk_percent::numeric) || ' % full.'`)}
  from (
    select a.id, p.disk_percent from alerts a
    join (${monitored(coverage)}) o on o.org_id = a.org_id
    cross join ${lookedUp(`select p.disk_percent from device_presence p where p.device_id = a.subject_id
      and p.disk_percent < o.disk_percent - ${DISK_SLACK} and p.metrics_at > now() - ${FRESH}`)} p
    where a.kind = '${DISK}' and a.cause_lasts
    offset 0
  ) as well
  where a.id = well.id`;

/** Resolves alerts of devices that are out of service, and of kinds that were switched off. */
export const resolveUnmonitored = (coverage: Coverage = {}): string[] => [
  `update alerts a set ${causeEndedSql(`'The device is out of service.'`)}
  from devices d
  where a.kind in ('${OFFLINE}', '${DISK}') and a.cause_lasts and d.id = a.subject_id and d.condition = 'decommissioned'
    ${covered('a.org_id', coverage)}`,
  `update alerts a set ${causeEndedSql(`'Alerts of this kind were switched off.'`)}
  from (${monitored(coverage)}) o
  where a.cause_lasts and o.org_id = a.org_id
    and case a.kind when '${OFFLINE}' then o.minutes is null when '${DISK}' then o.disk_percent is null end`,
];

/** After this time without a round, the servers must have been down. */
const GAP = `interval '90 seconds'`;
/** After an outage the fleet has this time to reconnect before offline alerts are raised. */
const GRACE = `interval '10 minutes'`;

/** A server that restarts repeatedly cannot postpone the alerts forever. */
const GRACE_AT_MOST_EVERY = `interval '1 hour'`;

/** A round that this server has begun. */
export interface Locked {
  isWhole: boolean;
  /** Devices still have time to reconnect. */
  isEarly: boolean;
}

/** Begins a round, unless another server is running one or has just done so. */
export async function lockRound(
  tx: Tx,
  {
    everyMs,
    wholeEveryMs,
    startedAt,
    hasJustStarted,
  }: { everyMs: number; wholeEveryMs: number; startedAt: Date; hasJustStarted: boolean },
): Promise<Locked | undefined> {
  const { rows } = await tx.raw<{ rows: Locked[] }>(
    `with mine as materialized (
        select * from alert_rounds where through <= clock_timestamp() - ? * interval '1 millisecond'
        for update skip locked
      ), watched as (
        update alert_rounds r set watched_since = now() from mine
        where mine.through < now() - ${GAP} or ? and mine.watched_since < now() - ${GRACE_AT_MOST_EVERY}
          and mine.watched_since < ? and exists (select from device_presence where since < ?)
        returning r.watched_since
      ), since as (
        select mine.whole_at, coalesce((select watched_since from watched), mine.watched_since) + ${GRACE} as early_until
        from mine
      )
      select whole_at <= now() - ? * interval '1 millisecond' or whole_at < early_until and early_until <= now() as "isWhole",
        early_until > now() as "isEarly"
      from since`,
    [everyMs / 2, hasJustStarted, startedAt, startedAt, wholeEveryMs],
  );
  // The statistics do not cover rows that a statement creates itself; without this, it scans all of them per row.
  if (rows[0] !== undefined) await tx.raw('set local enable_seqscan = off');
  return rows[0];
}

/** Records that the round is complete. */
export async function endRound(tx: Tx, { isWhole }: Locked): Promise<void> {
  await tx.raw(`update alert_rounds set through = now() ${isWhole ? ', whole_at = now()' : ''}`);
}

/** The numbers of alerts that were raised and resolved. */
export interface Changes {
  raised: number;
  resolved: number;
}

export const sum = (one: Changes, other: Changes): Changes => ({
  raised: one.raised + other.raised,
  resolved: one.resolved + other.resolved,
});

/** A transaction, or a savepoint within one. */
type Session = Pick<Tx, 'raw'>;

export async function evaluate(
  tx: Session,
  { isWhole, isEarly }: Locked,
  coverage: Coverage,
): Promise<Changes> {
  const run = (sql: string) => affected(tx, sql, coverage);
  let raised = 0;
  let resolved = await run(resolveOffline(isWhole, coverage));
  if (!isEarly) raised += await inBatches(() => run(raiseOffline(isWhole, coverage)));
  if (isWhole) {
    for (const sql of [resolveDisk(coverage), ...resolveUnmonitored(coverage)]) resolved += await run(sql);
    raised += await inBatches(() => run(raiseDisk(coverage)));
  }
  return { raised, resolved };
}

async function affected(tx: Session, sql: string, { only, except = [] }: Coverage): Promise<number> {
  const bindings = { ...(only === undefined ? {} : { only }), except: [...except] };
  return (await tx.raw<{ rowCount: number }>(sql, bindings)).rowCount;
}

async function inBatches(raiseBatch: () => Promise<number>): Promise<number> {
  let total = 0;
  let count = BATCH_SIZE;
  while (count === BATCH_SIZE) {
    count = await raiseBatch();
    total += count;
  }
  return total;
}

export async function organizationIds(tx: Session): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>('select id from organizations order by id');
  return rows.map(({ id }) => id);
}
