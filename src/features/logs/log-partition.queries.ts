import {
  addComingPartitions,
  dropPartition,
  endedPartitions,
  type Partition,
} from '../../platform/db/partitions.ts';
import type { Db } from '../../platform/db/pool.ts';
import { lockForPruning, type RetentionRule } from '../../platform/db/retention-rule.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import {
  chosenDays,
  type DaysColumn,
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
  hasChosen,
  LOG_ROW,
} from '../log-retention/index.ts';

/** A kind of logs, whose table has a part with a partition for each week and a part for what is kept longer. */
export interface LogKind {
  table: string;
  recent: string;
  kept: string;
  /** The first partition of `recent`: the table of the release before there were partitions. */
  former: string;
  /** For how many days logs are kept, unless an organization has chosen otherwise in `column`. */
  days: number;
  column: DaysColumn;
  /** Those of the table but `kept`. */
  columns: string;
}

export const LOG_KINDS: readonly LogKind[] = [
  {
    table: 'event_logs',
    recent: 'event_logs_recent',
    kept: 'event_logs_kept',
    former: 'device_event_logs',
    days: DEFAULT_EVENT_DAYS,
    column: 'event_days',
    columns:
      'id, device_id, org_id, "timestamp", level, category, source, event_id, message, details, created_at',
  },
  {
    table: 'diagnostic_logs',
    recent: 'diagnostic_logs_recent',
    kept: 'diagnostic_logs_kept',
    former: 'agent_logs',
    days: DEFAULT_DIAGNOSTIC_DAYS,
    column: 'diagnostic_days',
    columns:
      'id, device_id, org_id, "timestamp", level, component, message, fields, agent_version, created_at',
  },
];

/**
 * What is removed row by row: where an organization keeps its logs shorter than the partitions, where it has kept them
 * longer, and in the first partition, which holds more than a week.
 */
export const logRetentionRules = (kind: LogKind): RetentionRule[] => {
  const { table, kept, former, days, column } = kind;
  const isOver = (sqlDays: string) => `old.created_at < now() - make_interval(days => ${sqlDays})`;
  const ofDevices = (of: string) => `devices d join ${of} old on old.device_id = d.id`;
  return [
    {
      table,
      key: LOG_ROW,
      days,
      from: ofDevices(table),
      // By the clock of the device as well, which the index of partitions has. The rest ends with its partition.
      isOver: (sqlDays) =>
        `old."timestamp" < now() - make_interval(days => ${sqlDays}) and ${isOver(sqlDays)}`,
      organization: {
        column: 'd.org_id',
        chosenDays: chosenDays(column),
        candidate: hasChosen(column, '<', days),
      },
    },
    {
      table: former,
      key: LOG_ROW,
      days,
      from: ofDevices(former),
      isOver,
      organization: {
        column: 'd.org_id',
        chosenDays: chosenDays(column),
        candidate: `exists (select from ${former}) and exists (select from devices d where d.org_id = o.id)`,
      },
    },
    { table: kept, key: LOG_ROW, days, isOver, organization: { chosenDays: chosenDays(column) } },
  ];
};

/** Creates the missing partitions for what arrives now and in the next days. */
export async function addComingLogPartitions(db: Db): Promise<void> {
  await withSystem(db, 'create partitions of logs', async (tx) => {
    for (const { recent } of LOG_KINDS) await addComingPartitions(tx, recent, 3);
  });
}

/** The partitions of a kind that end by then, the oldest first, without the first one of the former release. */
export const endedLogPartitions = (db: Db, { recent }: LogKind, until: Date): Promise<Partition[]> =>
  withSystem(db, 'find partitions of logs that end', (tx) => endedPartitions(tx, recent, until));

/** The organizations that keep logs of a kind longer than their partitions are there. */
export async function longKeepers(db: Db, { column, days }: LogKind): Promise<string[]> {
  const { rows } = await withSystem(db, 'find the organizations that keep logs longer', (tx) =>
    tx.raw<{ rows: { id: string }[] }>(
      `select o.id from organizations o where ${hasChosen(column, '>', days)} order by o.id`,
    ),
  );
  return rows.map(({ id }) => id);
}

const AT_ONCE = 5000;

/**
 * Puts some rows of an organization aside, out of a partition that will be dropped.
 * @returns how many, and whether there may be more
 */
export async function putAside(
  db: Db,
  { recent, kept, columns }: LogKind,
  { begins, ends }: Partition,
  orgId: string,
): Promise<{ moved: number; mayHaveMore: boolean }> {
  const key = LOG_ROW.join(', ');
  return withSystem(db, 'put logs aside that are kept longer', async (tx) => {
    await lockForPruning(tx, recent);
    // Past the table itself, whose trigger would take them for new events.
    const { rowCount } = await tx.raw<{ rowCount: number }>(
      `with ended as (
        delete from ${recent} where created_at >= ?::timestamptz and created_at < ?::timestamptz and (${key}) in (
          select ${LOG_ROW.map((name) => `old.${name}`).join(', ')} from devices d join ${recent} old on old.device_id = d.id
          where d.org_id = ? and old.created_at >= ?::timestamptz and old.created_at < ?::timestamptz limit ${AT_ONCE})
        returning *
      ), moved as (
        insert into ${kept} (${columns}, kept) select ${columns}, true from ended on conflict do nothing
      )
      select from ended`,
      [begins, ends, orgId, begins, ends],
    );
    return { moved: rowCount, mayHaveMore: rowCount === AT_ONCE };
  });
}

/** Whether a partition has rows of an organization that keeps them longer: if some could not be put aside. */
async function hasKeptRows(
  db: Db,
  { recent, column, days }: LogKind,
  { begins, ends }: Partition,
): Promise<boolean> {
  const { rows } = await withSystem(db, 'look for logs in a partition that are kept longer', (tx) =>
    tx.raw<{ rows: { held: boolean }[] }>(
      `select exists (
        select from organizations o join devices d on d.org_id = o.id
        join lateral (
          select from ${recent} l where l.device_id = d.id and l.created_at >= ?::timestamptz and l.created_at < ?::timestamptz
          limit 1
        ) found on true where ${hasChosen(column, '>', days)}
      ) as held`,
      [begins, ends],
    ),
  );
  return rows[0]?.held ?? true;
}

/**
 * Drops a partition, unless it has rows that are kept longer. Throws if the table is in use at that moment.
 * @returns whether it was dropped
 */
export async function dropLogPartition(db: Db, kind: LogKind, partition: Partition): Promise<boolean> {
  if (await hasKeptRows(db, kind, partition)) return false;
  // In a transaction of its own, which has not used the table yet.
  return withSystem(db, 'drop a partition of logs', (tx) => dropPartition(tx, kind.recent, partition));
}
