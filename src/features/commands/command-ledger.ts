import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { CommandEnd, CommandEvent, CommandLedger, DispatchedCommand } from '../../hub/ports.ts';
import {
  AgentErrorCode,
  COMMANDS,
  DURABLE_COMMAND_TYPES,
  type DurableCommandType,
  isDurable,
  LANE_LIMITS,
  laneOf,
  LANES,
  secretRefsIn,
} from '../../protocol/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { withSystem, withTenant, type Tx } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/errors.ts';
import type { Sealer } from '../../platform/secrets/sealed.ts';
import { assertOrganizationAccess, isManageableSql } from '../organizations/index.ts';
import { openSecrets } from './command-secrets.ts';
import { JOB_COLUMNS, type JobRow, toJobChange, toJobUpdate } from './job-updates.ts';

/** An agent that knows no lanes begins this many commands at once, and is sent no more than that. */
const AT_ONCE_WITHOUT_LANES = 2;
/** How long after its timeout a command may still report: for a slow end and the transfer of the result. */
const OVERDUE_SECONDS = 120;
const SWEEP_AT_ONCE = 1000;
/** Open jobs shown to a user. */
const JOBS_SHOWN = 200;
const OPEN = `c.status in ('queued', 'dispatched', 'accepted', 'running')`;

/** Before every id. */
const NIL_UUID = '00000000-0000-0000-0000-000000000000';

type Finished = { id: string; deviceId: string } & CommandEnd;

const isUuid = (id: string) => z.uuid().safeParse(id).success;

/** The ledger in Postgres. Every change says from which states it may come, so what has ended stays as it ended. */
export function createCommandLedger({
  db,
  nodeId,
  sealer,
  onEnded,
}: {
  db: Db;
  nodeId: string;
  sealer: Sealer;
  /** Called with the types of commands whose ends a device has reported, once these are stored. */
  onEnded?: (types: readonly string[]) => void;
}): CommandLedger {
  return {
    async take(claims) {
      const taken = await withSystem(db, 'take the work of many devices', async (tx) => {
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
        const cancelled = await tx.raw(
          `select id, device_id as "deviceId" from commands
          where device_id = any(?::uuid[]) and status in ('dispatched', 'accepted', 'running')
            and cancel_requested_at is not null`,
          [claims.map(({ deviceId }) => deviceId)],
        );
        const { sendable, failed } = await withSecrets(tx, sealer, (rows as TakenRow[]).map(toDispatched));
        return {
          dispatched: sendable,
          cancelled: cancelled.rows as { id: string; deviceId: string }[],
          changed: [...(rows as TakenRow[]), ...failed],
        };
      });
      return { ...taken, changed: taken.changed.map(toJobChange) };
    },

    async record(events) {
      const known = events.filter(({ id }) => isUuid(id));
      if (known.length === 0) return [];
      let ended: JobRow[] = [];
      const changed = await withSystem(db, 'write what devices say of their work', async (tx) => {
        const accepted = await recordAccepted(tx, ofKind(known, 'accepted'));
        const postponed = await recordPostponed(tx, ofKind(known, 'postponed'));
        const running = await recordRunning(tx, ofKind(known, 'running'));
        const finished = ofKind(known, 'finished').map(({ id, deviceId, end }) => ({ id, deviceId, ...end }));
        ended = await recordFinished(tx, finished);
        return [...accepted, ...postponed, ...running, ...ended];
      });
      if (ended.length > 0) onEnded?.(ended.map(({ type }) => type));
      return changed.map(toJobChange);
    },

    async undelivered(after, atMost) {
      return withSystem(db, 'find devices with work that nobody has told them of', async (tx) => {
        const { rows } = await tx.raw(
          `select distinct device_id from commands
          where (status = 'queued' and exists (
                select from organizations o where o.id = commands.org_id and ${isManageableSql('o')})
              or cancel_requested_at is not null and status in ('dispatched', 'accepted', 'running'))
            and device_id > ? order by device_id limit ?`,
          [after ?? NIL_UUID, atMost],
        );
        return (rows as { device_id: string }[]).map((row) => row.device_id);
      });
    },

    async sweep() {
      const ended = await withSystem(db, 'end the work that waited or took too long', async (tx) => {
        const { rows } = await tx.raw(SWEEP, [SWEEP_AT_ONCE, SWEEP_AT_ONCE]);
        return rows as JobRow[];
      });
      return ended.map(toJobChange);
    },

    async jobs(caller, { orgId, deviceId, jobId }) {
      const askedAt = clock.date();
      return withTenant(
        db,
        caller,
        async (tx) => {
          const query = tx('commands as c').whereRaw(inTenant(caller, 'c.org_id'));
          if (orgId !== undefined) {
            await assertOrganizationAccess({ tx, caller }, orgId);
            void query.where('c.org_id', orgId);
          }
          if (deviceId !== undefined) {
            const known = await tx('devices')
              .where({ id: deviceId })
              .whereRaw(inTenant(caller, 'org_id'))
              .first('id');
            if (known === undefined) throw notFound('Device');
            void query.where('c.device_id', deviceId);
          }
          if (jobId === undefined) void query.whereRaw(OPEN);
          else void query.where('c.id', jobId);
          const rows = await query
            .orderBy([
              { column: 'c.created_at', order: 'desc' },
              { column: 'c.id', order: 'desc' },
            ])
            .limit(JOBS_SHOWN)
            .select<JobRow[]>(tx.raw(JOB_COLUMNS));
          return rows.map((row) => toJobUpdate(row, askedAt));
        },
        { readOnly: true },
      );
    },
  };
}

const ofKind = <K extends CommandEvent['kind']>(events: readonly CommandEvent[], kind: K) =>
  events.filter((event): event is Extract<CommandEvent, { kind: K }> => event.kind === kind);

/** The lane of a command, by its type: `laneOf` as SQL. */
const laneSql = (column: string) => {
  const whens = DURABLE_COMMAND_TYPES.map((type) => `when '${type}' then '${laneOf(type)}'`);
  return `case ${column} ${whens.join(' ')} else '${laneOf('')}' end`;
};

// By device and lane: the oldest that wait, and those sent under an earlier claim of which no receipt came. What is
// locked is being cancelled at this moment. What was marked under a claim below `sent_from` was not sent on this
// connection, or nobody knows whether it was. A place without a lane takes commands of all lanes.
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

interface TakenRow extends JobRow {
  type: DurableCommandType;
  payload: unknown;
  attempt: number;
  epoch: string;
  deadline: Date;
}

const toDispatched = (row: TakenRow): DispatchedCommand => ({
  id: row.id,
  deviceId: row.deviceId,
  type: row.type,
  payload: row.payload,
  attempt: row.attempt,
  epoch: Number(row.epoch),
  deadline: row.deadline.toISOString(),
});

/** Puts in the secrets that payloads refer to. A command whose secrets cannot be read fails and is not sent. */
async function withSecrets(
  tx: Tx,
  sealer: Sealer,
  commands: readonly DispatchedCommand[],
): Promise<{ sendable: DispatchedCommand[]; failed: JobRow[] }> {
  const referring = new Map(
    commands.flatMap(({ id, payload }) => {
      const refs = secretRefsIn(payload);
      return refs.length === 0 ? [] : [[id, refs] as const];
    }),
  );
  if (referring.size === 0) return { sendable: [...commands], failed: [] };
  const opened = await openSecrets(tx, sealer, [...referring.keys()]);
  const isComplete = ({ id }: DispatchedCommand) =>
    referring.get(id)?.every((ref) => opened.get(id)?.[ref] !== undefined) ?? true;
  const sendable = commands.filter(isComplete).map((command) => {
    const secrets = opened.get(command.id);
    return secrets === undefined ? command : { ...command, secrets };
  });
  const unreadable = commands.filter((command) => !isComplete(command));
  const failed = await recordFinished(
    tx,
    unreadable.map(({ id, deviceId }) => ({ id, deviceId, ...UNREADABLE })),
  );
  return { sendable, failed };
}

const UNREADABLE: CommandEnd = {
  status: 'failed',
  error: {
    code: AgentErrorCode.secretUnavailable,
    message: 'A secret of this command cannot be read any more.',
  },
};

async function recordAccepted(
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

async function recordPostponed(
  tx: Tx,
  events: readonly { id: string; deviceId: string }[],
): Promise<JobRow[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.raw(
    `update commands c set status = 'queued', reason = 'device_busy', epoch = null
    from unnest(?::uuid[], ?::uuid[]) as e (id, device_id)
    where c.id = e.id and c.device_id = e.device_id and c.status = 'dispatched'
    returning ${JOB_COLUMNS}`,
    [events.map(({ id }) => id), events.map(({ deviceId }) => deviceId)],
  );
  return rows as JobRow[];
}

/** Any device can name any command. Whose it is the statement checks, so nothing of one device may displace another's. */
const commandOnDevice = ({ id, deviceId }: { id: string; deviceId: string }) =>
  `${deviceId} ${id.toLowerCase()}`;

async function recordRunning(
  tx: Tx,
  events: readonly Extract<CommandEvent, { kind: 'running' }>[],
): Promise<JobRow[]> {
  if (events.length === 0) return [];
  // Of several that came together the last one counts.
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
async function recordFinished(tx: Tx, events: readonly Finished[]): Promise<JobRow[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.raw('select id, type from commands where id = any(?::uuid[])', [
    events.map(({ id }) => id),
  ]);
  const types = new Map((rows as { id: string; type: string }[]).map(({ id, type }) => [id, type]));
  // Of results that came twice the first one counts.
  const first = new Map<string, Finished>();
  for (const event of events) {
    const type = types.get(event.id);
    const key = commandOnDevice(event);
    if (type !== undefined && !first.has(key)) first.set(key, asAgreed(type, event));
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
function asAgreed(type: string, { output, ...end }: Finished): Finished {
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

// Never sent: expired. Sent without a receipt, and its time to begin is over: nobody knows, and it is not sent again.
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
