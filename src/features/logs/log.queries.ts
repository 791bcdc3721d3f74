import type { AgentContext } from '../../platform/context.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import type { Amounts, Usage } from './budget.ts';
import { notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { DeviceEvent, DiagnosticLine } from '../../protocol/index.ts';
import { type ArrivedLogs, removeArrived } from '../log-retention/index.ts';

interface UsageRow {
  day_entries: string;
  day_bytes: string;
  entries: string;
  bytes: string;
}

const SUMS = `coalesce(sum(entries) filter (where day = (now() at time zone 'utc')::date), 0) as day_entries,
  coalesce(sum(bytes) filter (where day = (now() at time zone 'utc')::date), 0) as day_bytes,
  coalesce(sum(entries), 0) as entries, coalesce(sum(bytes), 0) as bytes`;

const OF_DEVICE = {
  name: 'log-budget-of-device',
  text: `select ${SUMS} from stored_log_days where org_id = $1 and device_id = $2`,
};
const OF_ORGANIZATION = {
  name: 'log-budget-of-organization',
  text: `select ${SUMS} from stored_log_days where org_id = $1`,
};
const ADD = {
  name: 'log-budget-add',
  text: `insert into stored_log_days (device_id, org_id, day, entries, bytes)
    select id, org_id, (now() at time zone 'utc')::date, $3, $4 from devices where org_id = $1 and id = $2
    on conflict (device_id, day) do update
      set entries = stored_log_days.entries + excluded.entries, bytes = stored_log_days.bytes + excluded.bytes`,
};

const usageOf = (row: UsageRow | undefined): Usage => ({
  day: { entries: Number(row?.day_entries ?? 0), bytes: Number(row?.day_bytes ?? 0) },
  total: { entries: Number(row?.entries ?? 0), bytes: Number(row?.bytes ?? 0) },
});

export const usageOfDevice = async ({ tx, agent }: AgentContext): Promise<Usage> =>
  usageOf((await runPrepared<UsageRow>(tx, OF_DEVICE, [agent.orgId, agent.deviceId]))[0]);

/** Reads a row for each device and day of the organization. */
export const usageOfOrganization = async ({ tx, agent }: AgentContext): Promise<Usage> =>
  usageOf((await runPrepared<UsageRow>(tx, OF_ORGANIZATION, [agent.orgId]))[0]);

export async function addUsage({ tx, agent }: AgentContext, { entries, bytes }: Amounts): Promise<void> {
  await runPrepared(tx, ADD, [agent.orgId, agent.deviceId, entries, bytes]);
}

interface DayRow {
  today: string;
  day: string | null;
  entries: string;
  bytes: string;
}

/** The logs of all devices of an organization, counted by the day on which they arrived, the oldest first. */
export async function arrivalDays(
  tx: Tx,
  orgId: string,
): Promise<{ today: string; days: ({ day: string } & Amounts)[] }> {
  const { rows } = await tx.raw<{ rows: DayRow[] }>(
    `select today::text, day::text, coalesce(sum(entries), 0) as entries, coalesce(sum(bytes), 0) as bytes
    from (select (now() at time zone 'utc')::date as today) present
    left join stored_log_days on org_id = ?
    group by 1, 2 order by 2`,
    [orgId],
  );
  return {
    today: rows[0]?.today ?? '',
    days: rows.flatMap(({ day, entries, bytes }) =>
      day === null ? [] : [{ day, entries: Number(entries), bytes: Number(bytes) }],
    ),
  };
}

/** The oldest day of a device of the organization, which is locked. */
export async function oldestArrivalDay(
  tx: Tx,
  { orgId, through }: { orgId: string; through: string },
): Promise<{ deviceId: string; day: string } | undefined> {
  const { rows } = await tx.raw<{ rows: { deviceId: string; day: string }[] }>(
    `select device_id as "deviceId", day::text from stored_log_days
    where org_id = ? and day <= ?::date order by stored_log_days.day, device_id limit 1 for update`,
    [orgId, through],
  );
  return rows[0];
}

/** Corrects the count of a device's day after logs were removed: in proportion, or to nothing. */
export async function lowerArrivalDay(
  tx: Tx,
  { deviceId, day, removed, isEmpty }: { deviceId: string; day: string; removed: number; isEmpty: boolean },
): Promise<void> {
  if (isEmpty) {
    await tx.raw('delete from stored_log_days where device_id = ? and day = ?::date', [deviceId, day]);
    return;
  }
  await tx.raw(
    `update stored_log_days set entries = greatest(entries - left_out.n, 0),
      bytes = case when entries > left_out.n then bytes * (entries - left_out.n) / entries else 0 end
    from (select ?::bigint as n) left_out where device_id = ? and day = ?::date`,
    [removed, deviceId, day],
  );
}

// Two batches of a device that are stored at once would not see each other's events, and the unique keys of partitions do
// not compare partitions: one waits here for the other. The device stays in its organization until the transaction ends.
// The statements after it are planned once per connection: planning the search in all partitions takes twice as long as
// storing ten events, and Postgres often believes that it pays.
const HOLD_DEVICE = {
  name: 'event-logs-hold-device',
  text: `select hostname, pg_advisory_xact_lock(hashtextextended('events of ' || id, 0)),
      set_config('plan_cache_mode', 'force_generic_plan', true)
    from devices where org_id = $1 and id = $2 for key share`,
};

/**
 * Must be called before events of the agent's device are stored.
 * @returns its host name. Throws `not_found` if the device has been deleted
 */
export async function holdDevice({ tx, agent }: AgentContext): Promise<string> {
  const [device] = await runPrepared<{ hostname: string }>(tx, HOLD_DEVICE, [agent.orgId, agent.deviceId]);
  if (device === undefined) throw notFound('Device');
  return device.hostname;
}

// A partition refuses what it has; what others have is looked up. That is its own part of the statement, because it then
// reads an index for the ids of the batch, however many events the device has.
const STORE_EVENTS = {
  name: 'event-logs-store',
  text: `
    with known as materialized (
      select source, event_id from event_logs where device_id = $2 and event_id = any($8::text[])
    ),
    stored as (
      insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message, details)
      select event.id, $2::uuid, $1::uuid, event."timestamp", event.level, event.category, event.source,
        event.event_id, event.message, event.details::jsonb
      from unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
        with ordinality as event (id, "timestamp", level, category, source, event_id, message, details, place)
      where not exists (
        select from known where known.source = event.source and known.event_id = event.event_id)
      order by event.place
      on conflict do nothing
      returning 1
    )
    select count(*)::int as stored from stored`,
};

/** Stores a group of events of a device that is held, and returns how many; those that are known already are skipped. */
export async function storeGroup(
  { tx, agent }: AgentContext,
  events: readonly DeviceEvent[],
): Promise<number> {
  const [group] = await runPrepared<{ stored: number }>(tx, STORE_EVENTS, [
    agent.orgId,
    agent.deviceId,
    events.map(() => newId()),
    events.map(({ timestamp }) => timestamp),
    events.map(({ level }) => level),
    events.map(({ category }) => category),
    events.map(({ source }) => source),
    events.map(({ eventId }) => eventId ?? null),
    events.map(({ message }) => message),
    events.map(({ details }) => (details === undefined ? null : JSON.stringify(details))),
  ]);
  return group?.stored ?? 0;
}

/** Removes some events of a device, for room. */
export const removeArrivedEvents = (tx: Tx, arrived: ArrivedLogs) => removeArrived(tx, 'event_logs', arrived);

// The whole batch in one statement, planned once per connection for any size.
const STORE_LINES = {
  name: 'diagnostic-logs-store',
  text: `
    with device as materialized (
      select id, org_id, agent_version from devices where org_id = $1 and id = $2 for key share
    ),
    stored as (
      insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, fields, agent_version)
      select line.id, device.id, device.org_id, line."timestamp", line.level, line.component, line.message,
        line.fields::jsonb, coalesce(line.agent_version, device.agent_version)
      from device cross join unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[])
        as line (id, "timestamp", level, component, message, fields, agent_version)
    )
    select id from device`,
};

/** Stores lines of the agent's own log. Throws `not_found` if the device has been deleted. */
export async function storeDiagnosticLines(
  { tx, agent }: AgentContext,
  lines: readonly DiagnosticLine[],
): Promise<{ received: number }> {
  const [device] = await runPrepared<{ id: string }>(tx, STORE_LINES, [
    agent.orgId,
    agent.deviceId,
    lines.map(() => newId()),
    lines.map(({ timestamp }) => timestamp),
    lines.map(({ level }) => level),
    lines.map(({ component }) => component),
    lines.map(({ message }) => message),
    lines.map(({ fields }) => (fields === undefined ? null : JSON.stringify(fields))),
    lines.map(({ agentVersion }) => agentVersion ?? null),
  ]);
  if (device === undefined) throw notFound('Device');
  return { received: lines.length };
}

/** Removes some lines of a device, for room. */
export const removeArrivedLines = (tx: Tx, arrived: ArrivedLogs) =>
  removeArrived(tx, 'diagnostic_logs', arrived);
