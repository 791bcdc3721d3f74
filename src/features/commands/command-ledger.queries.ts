import type { CommandEnd, CommandEvent, CommandLedger } from '../../hub/ports.ts';
import {
  COMMANDS,
  DURABLE_COMMAND_TYPES,
  type DurableCommandType,
  isDurable,
  LANE_LIMITS,
  laneOf,
  LANES,
} from '../../protocol/index.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { isManageableSql } from '../organizations/index.ts';
import { JOB_COLUMNS, type JobRow } from './command.queries.ts';

/** An agent that knows no lanes begins this many commands at once, and is sent no more than that. */
const AT_ONCE_WITHOUT_LANES = 2;

/** How long after its timeout a command may still report: for a slow end and the transfer of the result. */
const OVERDUE_SECONDS = 120;

const SWEEP_AT_ONCE = 1000;

/** Before every id. */
const NIL_UUID = '00000000-0000-0000-0000-000000000000';

type Finished = { id: string; deviceId: string } & CommandEnd;

/** The lane of a command, by its type: `laneOf` as SQL. */
const laneSql = (column: string) => {
  const whens = DURABLE_COMMAND_TYPES.map((type) => `when '${type}' then '${laneOf(type)}'`);
  return `case ${column} ${whens.join(' ')} else '${laneOf('')}' end`;
};

// By device and lane: the oldest that wait, and those sent under an earlier claim of which no receipt came. What is
// locked is being cancelled at this moment. What was marked under a claim below `sent_from` was not sent on this
// connection, or it is not known whether it was. A place without a lane takes commands of all lanes.
const TAKE = `
  with claim as (
    select device_id, epoch, case when is_uncertain then epoch + 1 else epoch end as sent_from, knows_lanes
    from unnest(?::uuid[], ?::bigint[], ?::boolean[], ?::boolean[])
      as claim (device_id, epoch, is_uncertain, knows_lanes)
    where exists (select from devices d join organizations o on o.id = d.org_id
      where d.id = claim.device_id and ${isManageableSql('o')})
  ),
  place as (
    select claim.*, lane.name as lane, lane.places from claim
    join unnest(?::text[], ?::int[]) as lane (name, places) on claim.knows_lanes
    union all select claim.*, null, ?::int from claim where not knows_lanes
  ),
  chosen as (
    select next.id, place.epoch from place cross join lateral (
      select c.id from commands c
      where c.device_id = place.device_id and c.expires_at > now()
        and (c.status = 'queued' or c.status = 'dispatched' and c.epoch < place.sent_from)
        and (place.lane is null or ${laneSql('c.type')} = place.lane)
      order by c.created_at, c.id
      limit greatest(0, place.places - (
        select count(*) from commands busy where busy.device_id = place.device_id
          and (place.lane is null or ${laneSql('busy.type')} = place.lane)
          and (busy.status in ('accepted', 'running') or busy.status = 'dispatched' and busy.epoch >= place.sent_from)))
      for update skip locked
    ) next
  )
  update commands c set status = 'dispatched', reason = null, attempt = c.attempt + 1, node_id = ?, epoch = chosen.epoch
  from chosen where c.id = chosen.id
  returning ${JOB_COLUMNS}, c.payload, c.attempt, c.epoch, now() + make_interval(secs => c.timeout_seconds) as deadline`;

/** Marks the commands that the claimed devices may be sent now as dispatched, and returns them. */
export async function takeCommands(
  tx: Tx,
  claims: Parameters<CommandLedger['take']>[0],
  nodeId: string,
): Promise<TakenRow[]> {
  const { rows } = await tx.raw(TAKE, [
    claims.map(({ deviceId }) => deviceId),
    claims.map(({ epoch }) => String(epoch)),
    claims.map(({ isUncertain = false }) => isUncertain),
    claims.map(({ knowsLanes }) => knowsLanes),
    LANES,
    LANES.map((lane) => LANE_LIMITS[lane]),
    AT_ONCE_WITHOUT_LANES,
    nodeId,
  ]);
  return rows as TakenRow[];
}

/** The commands of these devices that were sent and are to be cancelled. */
export async function cancelRequested(
  tx: Tx,
  deviceIds: readonly string[],
): Promise<{ id: string; deviceId: string }[]> {
  const { rows } = await tx.raw(
    `select id, device_id as "deviceId" from commands
    where device_id = any(?::uuid[]) and status in ('dispatched', 'accepted', 'running')
      and cancel_requested_at is not null`,
    [[...deviceIds]],
  );
  return rows as { id: string; deviceId: string }[];
}

/**
 * The devices for which a command or a cancellation waits, by their IDs: also those of commands that were sent under an
 * older claim than the one under which the device is connected now. A server that was cut off takes commands for a device
 * that has left it, after the device has asked its new server for them.
 */
export async function undeliveredDevices(
  tx: Tx,
  { after, atMost }: { after: string | undefined; atMost: number },
): Promise<string[]> {
  const { rows } = await tx.raw(
    `(select distinct device_id from commands
      where (status = 'queued' and exists (
            select from organizations o where o.id = commands.org_id and ${isManageableSql('o')})
          or cancel_requested_at is not null and status in ('dispatched', 'accepted', 'running'))
        and device_id > :after order by device_id limit :atMost)
    union
    (select distinct c.device_id from commands c join device_presence p on p.device_id = c.device_id
      where c.status = 'dispatched' and p.state = 'connected' and c.epoch < p.epoch and exists (
          select from organizations o where o.id = c.org_id and ${isManageableSql('o')})
        and c.device_id > :after order by c.device_id limit :atMost)
    order by device_id limit :atMost`,
    { after: after ?? NIL_UUID, atMost },
  );
  return (rows as { device_id: string }[]).map((row) => row.device_id);
}

/** Ends the commands that waited or took too long, and returns them. */
export async function endOverdueCommands(tx: Tx): Promise<JobRow[]> {
  const { rows } = await tx.raw(SWEEP, [SWEEP_AT_ONCE, SWEEP_AT_ONCE]);
  return rows as JobRow[];
}

export interface TakenRow extends JobRow {
  type: DurableCommandType;
  payload: unknown;
  attempt: number;
  epoch: string;
  deadline: Date;
}

export async function recordAccepted(
  tx: Tx,
  events: readonly { id: string; deviceId: string }[],
): Promise<JobRow[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.raw(
    `update commands c set status = 'accepted', started_at = coalesce(c.started_at, now()),
      due_at = now() + make_interval(secs => c.timeout_seconds + ${OVERDUE_SECONDS})
    from unnest(?::uuid[], ?::uuid[]) as e (id, device_id)
    where c.id = e.id and c.device_id = e.device_id and c.status in ('queued', 'dispatched')
    returning ${JOB_COLUMNS}`,
    [events.map(({ id }) => id), events.map(({ deviceId }) => deviceId)],
  );
  return rows as JobRow[];
}

/** Any device can name any command. The statement checks the owner, so nothing of one device may displace another's. */
const commandOnDevice = ({ id, deviceId }: { id: string; deviceId: string }) =>
  `${deviceId} ${id.toLowerCase()}`;

export async function recordRunning(
  tx: Tx,
  events: readonly Extract<CommandEvent, { kind: 'running' }>[],
): Promise<JobRow[]> {
  if (events.length === 0) return [];
  // If several arrived together, the last one counts.
  const latest = [...new Map(events.map((event) => [commandOnDevice(event), event])).values()];
  const { rows } = await tx.raw(
    `update commands c set status = 'running', started_at = coalesce(c.started_at, now()),
      due_at = coalesce(c.due_at, now() + make_interval(secs => c.timeout_seconds + ${OVERDUE_SECONDS})),
      progress = coalesce(e.progress, c.progress)
    from unnest(?::uuid[], ?::uuid[], ?::jsonb[]) as e (id, device_id, progress)
    where c.id = e.id and c.device_id = e.device_id and c.status in ('queued', 'dispatched', 'accepted', 'running')
    returning ${JOB_COLUMNS}`,
    [
      latest.map(({ id }) => id),
      latest.map(({ deviceId }) => deviceId),
      latest.map(({ progress }) => (progress === undefined ? null : JSON.stringify(progress))) as string[],
    ],
  );
  return rows as JobRow[];
}

/** Ends commands, once. What comes after the end is kept beside it, unless it says the same. */
export async function recordFinished(tx: Tx, events: readonly Finished[]): Promise<JobRow[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.raw('select id, type from commands where id = any(?::uuid[])', [
    events.map(({ id }) => id),
  ]);
  const types = new Map((rows as { id: string; type: string }[]).map(({ id, type }) => [id, type]));
  // If a result arrived twice, the first one counts.
  const first = new Map<string, Finished>();
  for (const event of events) {
    const type = types.get(event.id.toLowerCase());
    const key = commandOnDevice(event);
    if (type !== undefined && !first.has(key)) first.set(key, conformingEnd(type, event));
  }
  if (first.size === 0) return [];
  const ends = JSON.stringify([...first.values()]);
  const told = `jsonb_to_recordset(?::jsonb) as e (id uuid, "deviceId" uuid, status text, output jsonb, error jsonb)`;
  await tx.raw(
    `update commands c set late_result = jsonb_strip_nulls(
        jsonb_build_object('status', e.status, 'output', e.output, 'error', e.error, 'at', now()))
    from ${told}
    where c.id = e.id and c.device_id = e."deviceId" and c.status in ('timed_out', 'expired', 'cancelled')
      and c.status <> e.status and c.late_result is null`,
    [ends],
  );
  const ended = await tx.raw(
    `update commands c set status = e.status, reason = null, output = e.output, error = e.error,
      started_at = coalesce(c.started_at, now()), finished_at = now()
    from ${told}
    where c.id = e.id and c.device_id = e."deviceId"
      and c.status in ('queued', 'dispatched', 'accepted', 'running')
    returning ${JOB_COLUMNS}`,
    [ends],
  );
  return ended.rows as JobRow[];
}

/** An output that is not of the agreed form makes a failure of a success, and is not kept. */
function conformingEnd(type: string, { output, ...end }: Finished): Finished {
  // A server of another release may have made work of a type that is not known here.
  const parsed = isDurable(type) ? COMMANDS[type].output.safeParse(output) : undefined;
  if (parsed?.success === true) return { ...end, output: parsed.data };
  if (end.status !== 'succeeded') return end;
  const error = {
    code: 'INVALID_OUTPUT',
    message: 'The agent sent an output that is not of the agreed form.',
  };
  return { ...end, status: 'failed', error };
}

// Never sent: expired. Sent without a receipt, and its time to begin is over: it may have run, and is not sent again.
const SWEEP = `
  with unsent as (
    select id from commands where status in ('queued', 'dispatched') and expires_at <= now()
    limit ? for update skip locked
  ),
  overdue as (
    select id from commands where status in ('accepted', 'running') and due_at <= now()
    limit ? for update skip locked
  )
  update commands c set
    status = case when c.status = 'queued' then 'expired' else 'timed_out' end,
    reason = case c.status when 'queued' then null when 'dispatched' then 'no_receipt' else 'no_result' end,
    finished_at = now()
  from (select id from unsent union all select id from overdue) as late where c.id = late.id
  returning ${JOB_COLUMNS}`;
