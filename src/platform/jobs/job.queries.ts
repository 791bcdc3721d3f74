import type { Statement } from '../db/statement.ts';

/** For how many days ended jobs are kept: their keys, results and errors. */
export const SUCCEEDED_DAYS = 1;
export const FAILED_DAYS = 14;

const ENDED = (
  days: number,
) => `finished_at = now(), expires_at = now() + interval '${days} days', sealed_input = null,
  lease_id = null, lease_until = null`;
const WAITING = 'lease_id = null, lease_until = null';
const QUEUED_FAILED = `state = 'failed', ${ENDED(FAILED_DAYS)}`;

/** $1 names that this process can begin, $2 ids that it runs, $3 names of schedules: what there is to do at this moment. */
export const LOOK: Statement = {
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
export const LOCK_CLAIMS: Statement = {
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
export const CLAIM: Statement = {
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
export const RENEW: Statement = {
  name: 'jobs-renew',
  text: `update background_jobs b set lease_until = clock_timestamp() + make_interval(secs => $3)
    from unnest($1::uuid[], $2::uuid[]) as held (id, lease_id)
    where b.id = held.id and b.lease_id = held.lease_id returning b.id`,
};

/** $1 id, $2 lease, $3 progress */
export const SAVE_PROGRESS: Statement = {
  name: 'jobs-progress',
  text: 'update background_jobs set progress = $3::jsonb where id = $1 and lease_id = $2 returning id',
};

/** How an attempt ends. Each has $1 id, $2 lease; no row comes back where the lease is somebody else's by now. */
export const END: Record<'succeeded' | 'failed' | 'cancelled' | 'again' | 'handedBack', Statement> = {
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
 * Jobs whose lease nobody has renewed, and those that wait beyond their deadline. An attempt that its process did not
 * survive counts, and later ones wait a little, so that a job that kills its process does not do so without end.
 */
export const TAKE_OVER: Statement = {
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
export const CANCEL: Statement = {
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
export const READ: Statement = {
  name: 'jobs-read',
  text: 'select name, state, attempt, progress, result, error from background_jobs where id = $1',
};

/** By name and state: how many, and the age in seconds of the one that has been due for longest. */
export const COUNT: Statement = {
  name: 'jobs-count',
  text: `select name, state, count(*)::int as jobs,
      coalesce(extract(epoch from now() - min(run_at) filter (where state = 'queued' and run_at <= now())), 0)::float8
        as "oldestSeconds"
    from background_jobs where state in ('queued', 'running', 'failed') group by name, state`,
};
