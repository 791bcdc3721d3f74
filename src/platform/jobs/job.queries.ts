import { z } from 'zod';
import type { Db } from '../db/pool.ts';
import { type Statement } from '../db/statement.ts';
import { type Tx, withSystem, withSystemStatement, runPrepared } from '../db/transaction.ts';

/** For how many days ended jobs are kept: their keys, results and errors. */
const SUCCEEDED_DAYS = 1;
const FAILED_DAYS = 14;

const ENDED = (
  days: number,
) => `finished_at = now(), expires_at = now() + interval '${days} days', sealed_input = null,
  lease_id = null, lease_until = null`;
const WAITING = 'lease_id = null, lease_until = null';
const QUEUED_FAILED = `state = 'failed', ${ENDED(FAILED_DAYS)}`;

/** $1 names that this process can begin, $2 ids that it runs, $3 names of schedules: what there is to do at this moment. */
const LOOK: Statement = {
  name: 'jobs-look',
  text: `select
    array(select n from unnest($1::text[]) n where exists (
      select from background_jobs where name = n and state = 'queued' and run_at <= now())) as waiting,
    array(select id from background_jobs where id = any($2::uuid[]) and cancel_requested) as cancelled,
    exists (select from background_jobs where state = 'running' and lease_until < clock_timestamp())
      or exists (select from background_jobs where state = 'queued' and deadline < now()) as overdue,
    exists (select from job_schedules where name = any($3::text[]) and next_at <= now()) as scheduled`,
};

/** Claims of one kind of job take turns, so that each sees what the one before it has taken. $1 name */
const LOCK_CLAIMS: Statement = {
  name: 'jobs-lock-claims',
  text: `select pg_advisory_xact_lock(hashtextextended('background_jobs ' || $1, 0))`,
};

/**
 * $1 name, $2 free places, $3 places of these that are kept for partners with nothing running, $4 jobs that may run in
 * the cluster, $5 lease in seconds.
 *
 * Partners take turns: the place of a job within its turn counts the partner's running jobs as well, and the lowest
 * places go first. Of equal places, the partner goes first whose last job was begun the longest ago. Only the first jobs
 * of each turn are read, however many wait.
 */
const CLAIM: Statement = {
  name: 'jobs-claim',
  text: `with recursive turns as (
    (select turn from background_jobs where name = $1 and state = 'queued' order by turn limit 1)
    union all
    select (select j.turn from background_jobs j where j.name = $1 and j.state = 'queued' and j.turn > t.turn
      order by j.turn limit 1)
    from turns t where t.turn is not null
  ), running as (
    select turn, count(*)::int as jobs from background_jobs where state = 'running' and name = $1 group by turn
  ), room as (
    select least($2::int, $4::int - coalesce(sum(jobs), 0)::int) as places from running
  ), waiting as (
    select due.id, due.run_at, coalesce(r.jobs, 0) + due.place as place_in_turn,
      (select max(started_at) from background_jobs where name = $1 and turn = t.turn and started_at is not null) as last_turn
    from turns t left join running r on r.turn = t.turn
    cross join lateral (
      select id, run_at, row_number() over (order by run_at, id) as place from (
        select id, run_at from background_jobs
        where name = $1 and state = 'queued' and turn = t.turn and run_at <= now() and deadline > now()
        order by run_at, id limit $2::int
      ) first_of_turn
    ) due
    where t.turn is not null
  ), ordered as (
    select id, place_in_turn,
      row_number() over (order by place_in_turn, last_turn nulls first, run_at, id) as place
    from waiting
  )
  update background_jobs b set state = 'running', attempt = attempt + 1, started_at = clock_timestamp(),
    lease_id = gen_random_uuid(), lease_until = clock_timestamp() + make_interval(secs => $5)
  from ordered o, room
  where b.id = o.id and o.place <= room.places and (o.place_in_turn = 1 or o.place <= room.places - $3::int)
  returning b.id, b.lease_id as "leaseId", b.partner_id as "partnerId", b.attempt, b.max_attempts as "maxAttempts",
    b.input, b.sealed_input as "sealedInput", b.progress`,
};

/** $1 ids, $2 their leases, $3 seconds. Answers those that are still held. */
const RENEW: Statement = {
  name: 'jobs-renew',
  text: `update background_jobs b set lease_until = clock_timestamp() + make_interval(secs => $3)
    from unnest($1::uuid[], $2::uuid[]) as held (id, lease_id)
    where b.id = held.id and b.lease_id = held.lease_id returning b.id`,
};

/** $1 id, $2 lease, $3 progress */
const SAVE_PROGRESS: Statement = {
  name: 'jobs-progress',
  text: 'update background_jobs set progress = $3::jsonb where id = $1 and lease_id = $2 returning id',
};

/** How an attempt ends. Each has $1 id, $2 lease; no row comes back if the lease belongs to another attempt by now. */
const END: Record<'succeeded' | 'failed' | 'cancelled' | 'again' | 'handedBack', Statement> = {
  /** $3 result */
  succeeded: ending(
    'succeeded',
    `state = 'succeeded', result = $3::jsonb, error = null, ${ENDED(SUCCEEDED_DAYS)}`,
  ),
  /** $3 reason */
  failed: ending('failed', `state = 'failed', error = $3, ${ENDED(FAILED_DAYS)}`),
  cancelled: ending('cancelled', `state = 'cancelled', error = $3, ${ENDED(FAILED_DAYS)}`),
  /** $3 reason, $4 seconds until the next attempt */
  again: ending(
    'again',
    `state = 'queued', error = $3, run_at = now() + make_interval(secs => $4), ${WAITING}`,
  ),
  /** By a server that stops: the attempt does not count. $3 reason */
  handedBack: ending(
    'handed-back',
    `state = 'queued', attempt = attempt - 1, error = $3, run_at = now(), ${WAITING}`,
  ),
};

function ending(name: string, change: string): Statement {
  return {
    name: `jobs-end-${name}`,
    text: `update background_jobs set ${change} where id = $1 and lease_id = $2 returning id`,
  };
}

/**
 * Jobs whose lease was not renewed, and those that wait beyond their deadline. An attempt that its process did not
 * survive counts, and later ones wait a little, so that a job that kills its process does not do so without end.
 */
const TAKE_OVER: Statement = {
  name: 'jobs-take-over',
  text: `with lost as (
    update background_jobs set
      state = case when cancel_requested then 'cancelled' when attempt >= max_attempts then 'failed' else 'queued' end,
      run_at = now() + make_interval(secs => 10 * (attempt - 1)),
      finished_at = case when cancel_requested or attempt >= max_attempts then now() end,
      expires_at = case when cancel_requested or attempt >= max_attempts then now() + interval '${FAILED_DAYS} days' end,
      sealed_input = case when cancel_requested or attempt >= max_attempts then null else sealed_input end,
      error = 'The server that ran the job has ended or lost the database.', ${WAITING}
    where id in (
      select id from background_jobs where state = 'running' and lease_until < clock_timestamp()
      limit 1000 for update skip locked
    )
    returning id, name, attempt, state, partner_id
  ), late as (
    update background_jobs set error = coalesce(error, 'The job was not begun before its deadline.'), ${QUEUED_FAILED}
    where id in (
      select id from background_jobs where state = 'queued' and deadline < now() limit 1000 for update skip locked
    )
    returning id, name, attempt, state, partner_id
  )
  select id, name, attempt, state, partner_id as "partnerId" from lost
  union all select id, name, attempt, state, partner_id from late`,
};

/** $1 id. Answers the state in which the job is afterwards. */
const CANCEL: Statement = {
  name: 'jobs-cancel',
  text: `update background_jobs set
      cancel_requested = true,
      state = case when state = 'queued' then 'cancelled' else state end,
      finished_at = case when state = 'queued' then now() end,
      expires_at = case when state = 'queued' then now() + interval '${FAILED_DAYS} days' end,
      sealed_input = case when state = 'queued' then null else sealed_input end
    where id = $1 and state in ('queued', 'running') returning state`,
};

/** $1 id */
const READ: Statement = {
  name: 'jobs-read',
  text: 'select name, state, attempt, progress, result, error from background_jobs where id = $1',
};

/** By name and state: how many, and the age in seconds of the one that has been due for longest. */
const COUNT: Statement = {
  name: 'jobs-count',
  text: `select name, state, count(*)::int as jobs,
      coalesce(extract(epoch from now() - min(run_at) filter (where state = 'queued' and run_at <= now())), 0)::float8
        as "oldestSeconds"
    from background_jobs where state in ('queued', 'running', 'failed') group by name, state`,
};

export const JobState = z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled']);
export type JobState = z.infer<typeof JobState>;

export interface ClaimedJob {
  id: string;
  leaseId: string;
  partnerId: string | null;
  attempt: number;
  maxAttempts: number;
  input: unknown;
  sealedInput: string | null;
  progress: unknown;
}

export interface Look {
  /** Names of which at least one job is due. */
  waiting: string[];
  /** Ids of running jobs that were cancelled. */
  cancelled: string[];
  /** Whether leases or deadlines have passed. */
  overdue: boolean;
  /** Whether a recurring job is due. */
  scheduled: boolean;
}

export interface TakenOver {
  id: string;
  name: string;
  attempt: number;
  state: JobState;
  partnerId: string | null;
}

export interface JobCount {
  name: string;
  state: JobState;
  jobs: number;
  oldestSeconds: number;
}

/** How an attempt ended. */
export type Ending =
  | { as: 'succeeded'; result: unknown }
  | { as: 'failed' | 'cancelled' | 'handedBack'; reason: string }
  | { as: 'again'; reason: string; afterMs: number };

export interface ClaimOptions {
  name: string;
  /** How many this process can begin now. */
  free: number;
  /** How many of those are kept for partners that have nothing running. */
  reserved: number;
  inCluster: number;
  leaseMs: number;
}

/** The statements about jobs, each in a short transaction of its own. */
export class JobStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async look(
    names: readonly string[],
    running: readonly string[],
    schedules: readonly string[],
  ): Promise<Look> {
    const [found] = await this.#run<Look>(LOOK, [names, running, schedules]);
    return found ?? { waiting: [], cancelled: [], overdue: false, scheduled: false };
  }

  async claim({ name, free, reserved, inCluster, leaseMs }: ClaimOptions): Promise<ClaimedJob[]> {
    return this.inTransaction(async (tx) => {
      await runPrepared(tx, LOCK_CLAIMS, [name]);
      return runPrepared<ClaimedJob>(tx, CLAIM, [name, free, reserved, inCluster, leaseMs / 1000]);
    });
  }

  /** Returns the ids that are still held by their leases. */
  async renew(held: readonly Pick<ClaimedJob, 'id' | 'leaseId'>[], leaseMs: number): Promise<Set<string>> {
    const rows = await this.#run<{ id: string }>(RENEW, [
      held.map(({ id }) => id),
      held.map(({ leaseId }) => leaseId),
      leaseMs / 1000,
    ]);
    return new Set(rows.map(({ id }) => id));
  }

  /** Whether the lease was still held. */
  async saveProgress(
    { id, leaseId }: Pick<ClaimedJob, 'id' | 'leaseId'>,
    progress: unknown,
  ): Promise<boolean> {
    return (await this.#run(SAVE_PROGRESS, [id, leaseId, JSON.stringify(progress)])).length > 0;
  }

  /** Whether the lease was still held, without which nothing is written. */
  async end({ id, leaseId }: Pick<ClaimedJob, 'id' | 'leaseId'>, ending: Ending): Promise<boolean> {
    const values: unknown[] = [id, leaseId];
    if (ending.as === 'succeeded') {
      values.push(ending.result === undefined ? null : JSON.stringify(ending.result));
    } else {
      values.push(ending.reason.slice(0, 1000));
    }
    if (ending.as === 'again') values.push(ending.afterMs / 1000);
    return (await this.#run(END[ending.as], values)).length > 0;
  }

  async takeOver(): Promise<TakenOver[]> {
    return this.#run<TakenOver>(TAKE_OVER, []);
  }

  /** `undefined` if the job has ended or does not exist. */
  async cancel(id: string): Promise<JobState | undefined> {
    const [found] = await this.#run<{ state: JobState }>(CANCEL, [id]);
    return found?.state;
  }

  async read(id: string): Promise<Record<string, unknown> | undefined> {
    return (await this.#run<Record<string, unknown>>(READ, [id]))[0];
  }

  async count(): Promise<JobCount[]> {
    return this.#run<JobCount>(COUNT, []);
  }

  async inTransaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return withSystem(this.#db, 'work on jobs of all partners', work);
  }

  async #run<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const always = () => true;
    return (
      (await withSystemStatement<Row>(
        this.#db,
        'work on jobs of all partners',
        { ...statement, values },
        always,
      )) ?? []
    );
  }
}

interface QueueState {
  waiting: number;
  /** For how long the first of those that are due has waited. */
  lateSeconds: number;
  /** Running by their records, of a process that does not renew its lease. */
  lost: number;
  failedToday: { name: string; count: number }[];
}

/** Figures about the background jobs, for operators. */
export function queueState(db: Db): Promise<QueueState> {
  return withSystem(db, 'the state of the background jobs', async (tx) => {
    const { rows } = await tx.raw(
      `select count(*) filter (where state = 'queued')::int as waiting,
        coalesce(extract(epoch from now() - min(run_at) filter (where state = 'queued' and run_at <= now())), 0)::float8
          as late_seconds,
        count(*) filter (where state = 'running' and lease_until < now())::int as lost
      from background_jobs where state in ('queued', 'running')`,
    );
    const { rows: failures } = await tx.raw(
      `select name, count(*)::int as count from background_jobs
      where state = 'failed' and finished_at > now() - interval '1 day' group by name order by count desc, name limit 20`,
    );
    return {
      waiting: Number(rows[0]?.waiting),
      lateSeconds: Number(rows[0]?.late_seconds),
      lost: Number(rows[0]?.lost),
      failedToday: failures as QueueState['failedToday'],
    };
  });
}

/** Stores when a schedule is due next, unless it is known already and unchanged. */
export async function storeSchedule(
  tx: Tx,
  { name, cron, timeZone, nextAt }: { name: string; cron: string; timeZone: string; nextAt: Date },
): Promise<void> {
  await tx.raw(
    `insert into job_schedules as s (name, cron, time_zone, next_at) values (?, ?, ?, ?)
    on conflict (name) do update
      set cron = excluded.cron, time_zone = excluded.time_zone, next_at = excluded.next_at
      where (s.cron, s.time_zone) is distinct from (excluded.cron, excluded.time_zone)`,
    [name, cron, timeZone, nextAt],
  );
}

/** The schedules of these names that are due, locked; one that another server has locked is left out. */
export async function lockDueSchedules(
  tx: Tx,
  names: readonly string[],
): Promise<{ name: string; dueAt: Date }[]> {
  const { rows } = await tx.raw<{ rows: { name: string; dueAt: Date }[] }>(
    `select name, next_at as "dueAt" from job_schedules where name = any(?) and next_at <= now()
        order by next_at for update skip locked`,
    [[...names]],
  );
  return rows;
}

export async function setNextRun(tx: Tx, name: string, nextAt: Date): Promise<void> {
  await tx.raw('update job_schedules set next_at = ? where name = ?', [nextAt, name]);
}

export async function databaseTime(tx: Tx): Promise<Date> {
  const { rows } = await tx.raw<{ rows: [{ now: Date }] }>('select now() as now');
  return rows[0].now;
}

interface NewJob {
  id: string;
  name: string;
  key: string | null;
  partnerId: string | null;
  /** JSON. Null where the input is sealed. */
  input: string | null;
  sealedInput: string | null;
  delaySeconds: number;
  deadlineSeconds: number;
  attempts: number;
}

/** Stores a job, unless one with its name and key is queued or running: then it returns that one. */
export async function storeJob(tx: Tx, job: NewJob): Promise<{ id: string; added: boolean }> {
  const { id, name, key, partnerId, input, sealedInput, delaySeconds, deadlineSeconds, attempts } = job;
  const { rows } = await tx.raw<{ rows: [{ id: string; added: boolean }] }>(
    'select id, added from enqueue_job(?, ?, ?, ?, ?::jsonb, ?, ?, ?, ?)',
    // Knex takes nulls, which its types leave out.
    [id, name, key, partnerId, input, sealedInput, delaySeconds, deadlineSeconds, attempts] as string[],
  );
  return rows[0];
}
