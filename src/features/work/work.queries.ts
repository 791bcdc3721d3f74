import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import type { Statement } from '../../platform/db/statement.ts';
import { runPrepared, type Tx, withSystem, withSystemStatement } from '../../platform/db/transaction.ts';
import type { WorkEndStatus, WorkLimits, WorkProgress } from './definition.ts';
import type { TimelineSource } from '../timeline-source.ts';

const CLAIMABLE = `stage = 'ready' and paused_at is null and blockers = 0`;
const HELD = `stage in ('leased', 'device')`;
const LIVES = `exists (select from work_holders h where h.id = $1 and h.alive_until > clock_timestamp())`;

/**
 * $1 the holder, $2 its node, $3 seconds. No row comes back if its time has passed: what it held may be elsewhere by now.
 * Holders that are long gone are forgotten.
 */
const KEEP_ALIVE: Statement = {
  name: 'work-keep-alive',
  text: `with gone as (
      delete from work_holders where id <> $1 and alive_until < clock_timestamp() - interval '1 hour'
    )
    insert into work_holders as h (id, node_id, alive_until)
    values ($1, $2, clock_timestamp() + make_interval(secs => $3))
    on conflict (id) do update set alive_until = excluded.alive_until where h.alive_until > clock_timestamp()
    returning h.id`,
};

/** $1 the holder, $2 kinds that it can begin: what there is to do at this moment. */
const LOOK: Statement = {
  name: 'work-look',
  text: `select ${LIVES} as lives,
    array(select k from unnest($2::text[]) k where exists (
      select from work where kind = k and ${CLAIMABLE} and due_at <= now())) as waiting,
    coalesce((select json_agg(json_build_object('id', id,
        'reason', case when cancel_requested_at is not null then 'cancelled' else 'paused' end))
      from work where holder_id = $1 and stage = 'leased'
        and (cancel_requested_at is not null or paused_at is not null)), '[]') as stopped,
    exists (select from work where stage = 'parked') as parked,
    exists (select from work w where w.stage = 'leased' and not exists (
        select from work_holders h where h.id = w.holder_id and h.alive_until > clock_timestamp()))
      or exists (select from work where stage in ('ready', 'parked') and paused_at is null and deadline_at <= now()
        and (stage = 'parked' or blockers > 0 or due_at > now())) as overdue`,
};

/**
 * Work whose process is gone is ready again and keeps its place among what waits, the first time. After that it is ready a
 * little later with each attempt, so that work that kills its process does not do so without end. Work that waits beyond
 * its deadline becomes due, and its next claim ends it.
 */
const TAKE_OVER: Statement = {
  name: 'work-take-over',
  text: `with lost as (
    update work set stage = 'ready', holder_id = null, fence = fence + 1, updated_at = now(),
      due_at = case when attempt > 1 then now() + make_interval(secs => 10 * (attempt - 1)) else due_at end
    where id in (
      select w.id from work w where w.stage = 'leased' and not exists (
        select from work_holders h where h.id = w.holder_id and h.alive_until > clock_timestamp())
      limit 1000 for update skip locked)
    returning id, kind
  ), late as (
    update work set stage = 'ready', due_at = now(), blockers = 0
    where id in (
      select id from work where stage in ('ready', 'parked') and paused_at is null and deadline_at <= now()
        and (stage = 'parked' or blockers > 0 or due_at > now())
      limit 1000 for update skip locked)
    returning id
  )
  select id, kind from lost`,
};

/** Claims of a kind with limits beyond one process take turns, so that each sees what the one before it has taken. $1 kind */
const LOCK_CLAIMS: Statement = {
  name: 'work-lock-claims',
  text: `select pg_advisory_xact_lock(hashtextextended('work ' || $1, 0))`,
};

/**
 * $1 holder, $2 kind, $3 free places, $4 to $6 how many may run in the cluster, of a partner, and of a target without a limit of its own, $7 the
 * turn after which to begin, $8 how many turns to look at, $9 whether the work now counts as running.
 *
 * A turn is what a partner wants of a target. Only the first rows of each turn are read, however many wait, and each claim
 * goes on where the one before it has stopped. Partners with the least work running come first, and within a partner what
 * people wait for.
 */
const CLAIM: Statement = {
  name: 'work-claim',
  text: `with recursive turns as (
    (select turn from work where kind = $2 and ${CLAIMABLE} and turn > $7::bigint order by turn limit 1)
    union all
    select (select w.turn from work w where w.kind = $2 and ${CLAIMABLE} and w.turn > l.turn order by w.turn limit 1)
    from turns l where l.turn is not null
  ), visited as (
    select turn from turns where turn is not null limit $8::int
  ), share as (
    -- Twice what a turn may get if all have work. Where most have none, the next claim follows at once.
    select least($3::int, 2 * $3::int / greatest(count(*), 1) + 2) as rows from visited
  ), held as materialized (
    select partner_id, target, count(*) as works from work where kind = $2 and ${HELD} group by 1, 2
  ), of_partners as (
    select partner_id, sum(works) as works from held group by 1
  ), of_targets as (
    select target, sum(works) as works from held where target is not null group by 1
  ), candidate as (
    select c.id, c.target, coalesce(c.target_limit, $6::int) as target_limit, c.is_urgent, c.due_at,
      row_number() over (partition by c.partner_id order by c.is_urgent desc, c.due_at, c.id)
        + coalesce(p.works, 0) as of_partner,
      row_number() over (partition by c.target order by c.is_urgent desc, c.due_at, c.id)
        + coalesce(t.works, 0) as of_target
    from visited v cross join lateral (
      (select id, partner_id, target, target_limit, is_urgent, due_at from work
        where kind = $2 and ${CLAIMABLE} and turn = v.turn and is_urgent and due_at <= now()
        order by due_at, id limit (select rows from share))
      union all
      (select id, partner_id, target, target_limit, is_urgent, due_at from work
        where kind = $2 and ${CLAIMABLE} and turn = v.turn and not is_urgent and due_at <= now()
        order by due_at, id limit (select rows from share))
      order by is_urgent desc, due_at, id limit (select rows from share)
    ) c
    left join of_partners p on p.partner_id is not distinct from c.partner_id
    left join of_targets t on t.target = c.target
  ), ranked as (
    select id, row_number() over (order by of_partner, is_urgent desc, due_at, id) as place from candidate
    where of_partner <= $5::int and (target is null or of_target <= target_limit)
  ), chosen as (
    select w.id from work w join ranked r on r.id = w.id
    where ${CLAIMABLE} and ${LIVES}
      and r.place <= least($3::int, $4::int - coalesce((select sum(works) from held), 0))
    for update of w skip locked
  ), claimed as (
    update work w set stage = 'leased', holder_id = $1, fence = fence + 1, attempt = attempt + 1,
      status = case when $9::boolean and status = 'pending' then 'running' else status end,
      started_at = case when $9::boolean then coalesce(started_at, now()) else started_at end,
      updated_at = now()
    from chosen where w.id = chosen.id
    returning w.id, w.kind, w.input, w.partner_id as "partnerId", w.org_id as "orgId", w.device_id as "deviceId",
      w.command_id as "commandId", w.created_by as "createdBy", w.created_at as "createdAt", w.step, w.attempt,
      w.fence, w.checkpoint, w.is_broken as "isBroken", w.finished_at is not null as "hasEnded",
      w.cancel_requested_at is not null as "isCancelled",
      extract(epoch from w.deadline_at - now())::float8 as "secondsLeft"
  )
  select coalesce((select json_agg(claimed) from claimed), '[]') as claimed,
    (select max(turn)::text from visited) as "lastTurn", (select count(*)::int from visited) as turns`,
};

/** Not if its device has reported by now: then the step is begun once more, and finds that. */
const RESTARTS = 'o.is_restart and not w.has_late';

/**
 * Stores how attempts have ended, of those whose claim still holds. $1 holder, $2 ids, $3 fences, $4 stages, $5 steps, $6
 * seconds until they are due, $7 by how much the attempt changes (null: begins at 0), $8 statuses, $9 codes, $10 messages,
 * $11 commands, $12 whether the work begins again.
 */
const STORE: Statement = {
  name: 'work-store',
  text: `with outcome as (
    select * from unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::int[], $8::text[], $9::text[],
      $10::text[], $11::uuid[], $12::boolean[])
      as o (id, fence, stage, step, seconds, attempts, status, code, message, command_id, is_restart)
  ), stored as (
    update work w set
      stage = case when o.stage = 'ended' and w.finished_at is null and w.has_late then 'ready'
        when o.stage = 'parked' and (w.cancel_requested_at is not null or exists (
        select from device_presence p where p.device_id = w.device_id and p.state = 'connected')) then 'ready'
        else o.stage end,
      step = case when o.is_restart and w.has_late then w.step else o.step end,
      holder_id = null,
      due_at = now() + make_interval(secs => case when w.cancel_requested_at is null then o.seconds else 0 end),
      attempt = case when o.attempts is null or (o.stage = 'ended' and w.has_late) then 0
        else greatest(w.attempt + o.attempts, 0) end,
      status = case when ${RESTARTS} then 'pending' else coalesce(o.status, w.status) end,
      started_at = case when ${RESTARTS} then null else w.started_at end,
      progress = case when ${RESTARTS} then null else w.progress end,
      checkpoint = case when ${RESTARTS} then null else w.checkpoint end,
      error_code = case when o.status is not null or o.code is not null then o.code else w.error_code end,
      error_message = case when o.status is not null or o.code is not null then o.message else w.error_message end,
      command_id = case when ${RESTARTS} then null else coalesce(o.command_id, w.command_id) end,
      stalled_since = case when ${RESTARTS} or o.status is not null then null else w.stalled_since end,
      paused_at = case when o.status is null then w.paused_at end,
      finished_at = case when o.status is null then w.finished_at else coalesce(w.finished_at, now()) end,
      updated_at = now()
    from outcome o
    where w.id = o.id and w.fence = o.fence and w.holder_id = $1 and w.stage = 'leased'
    returning w.id
  )
  select id from stored`,
};

/** $1 holder, $2 id, $3 fence, $4 progress, $5 checkpoint (null: as it is) */
const SAVE: Statement = {
  name: 'work-save',
  text: `update work set updated_at = now(), advanced_at = now(), stalled_since = null,
      progress = coalesce($4::jsonb, progress), checkpoint = coalesce($5::jsonb, checkpoint)
    where id = $2 and fence = $3 and holder_id = $1 and stage = 'leased' returning id`,
};

/** $1 devices that may have connected. */
const UNPARK: Statement = {
  name: 'work-unpark',
  text: `update work w set stage = 'ready', due_at = now(), updated_at = now()
    where w.stage = 'parked' and w.device_id = any($1::uuid[]) and exists (
      select from device_presence p where p.device_id = w.device_id and p.state = 'connected')
    returning w.id`,
};

const UNPARK_ALL: Statement = {
  name: 'work-unpark-all',
  text: `update work w set stage = 'ready', due_at = now(), updated_at = now()
    where w.id in (
      select p.id from work p join device_presence d on d.device_id = p.device_id and d.state = 'connected'
      where p.stage = 'parked' limit 1000 for update of p skip locked)
    returning w.id`,
};

const Claimed = z.object({
  id: z.string(),
  kind: z.string(),
  input: z.unknown(),
  partnerId: z.string().nullable(),
  orgId: z.string().nullable(),
  deviceId: z.string().nullable(),
  commandId: z.string().nullable(),
  createdBy: z.string().nullable(),
  createdAt: z.coerce.date(),
  step: z.string(),
  attempt: z.number(),
  fence: z.number(),
  checkpoint: z.unknown(),
  /** Work that it needs has not succeeded. */
  isBroken: z.boolean(),
  /** A device has reported a result after the end. */
  hasEnded: z.boolean(),
  isCancelled: z.boolean(),
  secondsLeft: z.number(),
});
export type ClaimedWork = z.infer<typeof Claimed>;

const Claims = z.object({
  claimed: z.array(Claimed),
  /** As text: a turn is a 64-bit number. */
  lastTurn: z.string().nullable(),
  turns: z.number(),
});
export type Claims = z.infer<typeof Claims>;

export interface Look {
  /** Whether the lease of this holder has not passed. */
  lives: boolean;
  waiting: string[];
  stopped: { id: string; reason: 'cancelled' | 'paused' }[];
  /** Whether work waits for a device. */
  parked: boolean;
  overdue: boolean;
}

export interface ClaimOptions {
  kind: string;
  limits: WorkLimits;
  free: number;
  runsOnServer: boolean;
  afterTurn: string;
  turns: number;
}

export const FIRST_TURN = '-9223372036854775808';
const UNLIMITED = 1_000_000;

/** How the row of an attempt changes. */
export interface StoredOutcome {
  id: string;
  fence: number;
  stage: 'ready' | 'parked' | 'device' | 'ended';
  step: string;
  afterMs: number;
  /** Added to the number of attempts; `reset` begins anew. */
  attempts: 0 | -1 | 'reset';
  status?: WorkEndStatus;
  code?: string;
  message?: string;
  commandId?: string;
  /** It begins again as if it had not begun. */
  isRestart?: boolean;
}

const WHY = 'do the work of all tenants';

/** The statements of one process about work, each in a short transaction of its own unless it takes one. */
export class WorkStore {
  readonly #db: Db;
  readonly #holder: { id: string; nodeId: string };

  constructor(db: Db, holder: { id: string; nodeId: string }) {
    this.#db = db;
    this.#holder = holder;
  }

  /** Whether this holder still counts. One whose time has passed never does again. */
  async keepAlive(leaseMs: number): Promise<boolean> {
    const { id, nodeId } = this.#holder;
    return (await this.#run(KEEP_ALIVE, [id, nodeId, leaseMs / 1000])).length > 0;
  }

  async look(kinds: readonly string[]): Promise<Look> {
    const [found] = await this.#run<Look>(LOOK, [this.#holder.id, kinds]);
    return found ?? { lives: false, waiting: [], stopped: [], parked: false, overdue: false };
  }

  takeOver(): Promise<{ id: string; kind: string }[]> {
    return this.#run(TAKE_OVER, []);
  }

  async claim({ kind, limits, free, runsOnServer, afterTurn, turns }: ClaimOptions): Promise<Claims> {
    const { inCluster = UNLIMITED, ofPartner = UNLIMITED, ofTarget = UNLIMITED } = limits;
    const values = [
      this.#holder.id,
      kind,
      free,
      inCluster,
      ofPartner,
      ofTarget,
      afterTurn,
      turns,
      runsOnServer,
    ];
    const isShared = [inCluster, ofPartner, ofTarget].some((limit) => limit < UNLIMITED);
    const [row] = isShared
      ? await withSystem(this.#db, WHY, async (tx) => {
          await runPrepared(tx, LOCK_CLAIMS, [kind]);
          return runPrepared<object>(tx, CLAIM, values);
        })
      : await this.#run<object>(CLAIM, values);
    return Claims.parse(row);
  }

  /** Returns the ids of those whose claim still held. */
  async store(outcomes: readonly StoredOutcome[], tx?: Tx): Promise<Set<string>> {
    const values = [
      this.#holder.id,
      outcomes.map(({ id }) => id),
      outcomes.map(({ fence }) => fence),
      outcomes.map(({ stage }) => stage),
      outcomes.map(({ step }) => step),
      outcomes.map(({ afterMs }) => afterMs / 1000),
      outcomes.map(({ attempts }) => (attempts === 'reset' ? null : attempts)),
      outcomes.map(({ status }) => status ?? null),
      outcomes.map(({ code }) => code ?? null),
      outcomes.map(({ message }) => message ?? null),
      outcomes.map(({ commandId }) => commandId ?? null),
      outcomes.map(({ isRestart = false }) => isRestart),
    ];
    const rows =
      tx === undefined
        ? await this.#run<{ id: string }>(STORE, values)
        : await runPrepared<{ id: string }>(tx, STORE, values);
    return new Set(rows.map(({ id }) => id));
  }

  /** Whether the claim still held. */
  async save(
    { id, fence }: Pick<ClaimedWork, 'id' | 'fence'>,
    { progress, checkpoint }: { progress?: WorkProgress | undefined; checkpoint?: unknown },
  ): Promise<boolean> {
    const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
    const values = [this.#holder.id, id, fence, json(progress), json(checkpoint)];
    return (await this.#run(SAVE, values)).length > 0;
  }

  /** @param deviceIds  devices that may have connected; without them all are looked at */
  async unpark(deviceIds?: readonly string[]): Promise<number> {
    const rows =
      deviceIds === undefined ? await this.#run(UNPARK_ALL, []) : await this.#run(UNPARK, [deviceIds]);
    return rows.length;
  }

  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return withSystem(this.#db, WHY, work);
  }

  async #run<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const always = () => true;
    return (await withSystemStatement<Row>(this.#db, WHY, { ...statement, values }, always)) ?? [];
  }
}

/** Work as it is changed by a request, or handed to a device: locked. */
export interface LockedWork {
  id: string;
  kind: string;
  input: unknown;
  partnerId: string | null;
  orgId: string | null;
  deviceId: string | null;
  commandId: string | null;
  createdBy: string | null;
  createdAt: Date;
  stage: 'ready' | 'leased' | 'parked' | 'device' | 'ended';
  fence: string;
  hasEnded: boolean;
  isCancelled: boolean;
}

export async function lockWork(tx: Tx, id: string): Promise<LockedWork | undefined> {
  const { rows } = await tx.raw<{ rows: LockedWork[] }>(
    `select id, kind, input, partner_id as "partnerId", org_id as "orgId", device_id as "deviceId",
      command_id as "commandId", created_by as "createdBy", created_at as "createdAt", stage, fence,
      finished_at is not null as "hasEnded", cancel_requested_at is not null as "isCancelled"
    from work where id = ? for no key update`,
    [id],
  );
  return rows[0];
}

/** Ends work that no process and no device has, in the transaction that has locked it. */
export async function endUnheld(
  tx: Tx,
  id: string,
  {
    status,
    code = null,
    message = null,
  }: { status: WorkEndStatus; code?: string | null; message?: string | null },
): Promise<void> {
  await tx.raw(
    `update work set stage = 'ended', status = :status, error_code = :code, error_message = :message, paused_at = null,
      stalled_since = null, cancel_requested_at = case when :status = 'cancelled' then coalesce(cancel_requested_at, now())
        else cancel_requested_at end,
      started_at = case when :status = 'cancelled' then started_at else coalesce(started_at, now()) end,
      finished_at = coalesce(finished_at, now()), updated_at = now()
    where id = :id`,
    { id, status, code, message },
  );
}

/**
 * Cancels work of these that has not begun, without settling it.
 * @returns how many it was
 */
export async function cancelUnbegun(tx: Tx, ids: readonly string[]): Promise<number> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select id from work where id = any(?::uuid[]) and stage in ('ready', 'parked') and command_id is null
    order by id for no key update`,
    [[...ids]],
  );
  await tx.raw(
    `update work set stage = 'ended', status = 'cancelled', paused_at = null, cancel_requested_at = now(),
      finished_at = now(), updated_at = now() where id = any(?::uuid[])`,
    [rows.map(({ id }) => id)],
  );
  return rows.length;
}

/**
 * Cancels work of these that has not ended, without settling it. Work that a process has is told to stop, and settled
 * when it has stopped. It is for kinds that give their devices no commands.
 * @returns the ids of what has ended with this
 */
export async function cancelMany(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string; isHeld: boolean }[] }>(
    `select id, stage not in ('ready', 'parked') as "isHeld" from work
    where id = any(?::uuid[]) and finished_at is null order by id for no key update`,
    [[...ids]],
  );
  // The triggers of the table compare the rows of a statement before and after it with each other.
  for (let first = 0; first < rows.length; first += CANCELLED_AT_ONCE) {
    const part = rows.slice(first, first + CANCELLED_AT_ONCE).map(({ id }) => id);
    await tx.raw(
      `update work set cancel_requested_at = coalesce(cancel_requested_at, now()), paused_at = null, updated_at = now(),
        status = case when stage in ('ready', 'parked') then 'cancelled' else status end,
        finished_at = case when stage in ('ready', 'parked') then now() else finished_at end,
        stage = case when stage in ('ready', 'parked') then 'ended' else stage end
      where id = any(?::uuid[])`,
      [part],
    );
  }
  return rows.filter(({ isHeld }) => !isHeld).map(({ id }) => id);
}

const CANCELLED_AT_ONCE = 250;

/**
 * Gives work to its device, as if it had not begun before: `step` is begun when the command has ended.
 * @returns whether it had ended, or was just added; `false` leaves it as it is
 */
export async function putOnDevice(
  tx: Tx,
  id: string,
  { commandId, step, deadlineSeconds }: { commandId: string; step: string; deadlineSeconds: number },
): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update work set stage = 'device', step = :step, command_id = :commandId, attempt = 0, status = 'pending',
      progress = null, checkpoint = null, advanced_at = null, stalled_since = null, error_code = null,
      error_message = null, started_at = null, finished_at = null, cancel_requested_at = null, has_late = false,
      deadline_at = now() + make_interval(secs => :deadlineSeconds), updated_at = now()
    where id = :id and stage in ('ready', 'parked', 'ended') and (finished_at is not null or command_id is null)`,
    { id, commandId, step, deadlineSeconds },
  );
  return rowCount > 0;
}

/** Marks work that a device does, and that has not advanced for this time. A trigger takes the mark away. */
export const markStalledWork = async (tx: Tx, minutes: number): Promise<void> => {
  await tx.raw(
    `update work set stalled_since = coalesce(advanced_at, started_at)
    where stage = 'device' and status = 'running' and stalled_since is null
      and coalesce(advanced_at, started_at) < now() - make_interval(mins => ?)`,
    [minutes],
  );
};

export const requestCancelOfWork = async (tx: Tx, id: string): Promise<void> => {
  await tx.raw(
    `update work set cancel_requested_at = coalesce(cancel_requested_at, now()), paused_at = null, updated_at = now(),
      stage = case when stage = 'parked' then 'ready' else stage end, blockers = 0,
      due_at = case when stage in ('ready', 'parked') then now() else due_at end
    where id = ?`,
    [id],
  );
};

/** The time that it is paused does not count for its deadline. Returns whether it was paused, or has gone on. */
export async function setPaused(tx: Tx, id: string, isPaused: boolean): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    isPaused
      ? `update work set paused_at = now(), updated_at = now()
        where id = ? and finished_at is null and paused_at is null and cancel_requested_at is null`
      : `update work set deadline_at = deadline_at + (now() - paused_at), paused_at = null, updated_at = now()
        where id = ? and finished_at is null and paused_at is not null`,
    [id],
  );
  return rowCount > 0;
}

/**
 * The work of one kind for the timeline of a device.
 * @param named  how the timeline calls it, and what the caller needs to see it
 */
export const workTimeline = (
  workKind: string,
  named: Pick<TimelineSource, 'kind' | 'permission'>,
): TimelineSource => ({
  ...named,
  from: `work t where t.org_id = :orgId and t.device_id = :deviceId and t.kind = '${workKind}'`,
  id: 't.id::text',
  at: 't.created_at',
  endedAt: 't.finished_at',
  by: 't.created_by',
  fields: { task: 't.kind', status: 't.status', error: 't.error_message' },
});
