-- Durable background work (docs/decisions/jobs.md). A job belongs to the process that holds its lease; a lease that
-- nobody renews ends, and another process runs the job again. No tenant sees these tables: requests add jobs through
-- enqueue_job, and everything else is done across tenants.

create table background_jobs (
  id uuid primary key,
  name varchar(80) not null,
  -- A second job with the same name and key is not added for as long as the first one is kept.
  key varchar(200),
  -- The partner for which the work is done. Partners take turns; the work of the platform itself has a turn of its own.
  partner_id uuid references partners (id),
  turn uuid not null generated always as (coalesce(partner_id, '00000000-0000-0000-0000-000000000000')) stored,
  state varchar(10) not null default 'queued'
    check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  -- One of the two. What is sealed is removed when the job ends.
  input jsonb,
  sealed_input text,
  run_at timestamptz(3) not null default now(),
  -- After this the work is of no use: a job that still waits fails.
  deadline timestamptz(3) not null,
  attempt integer not null default 0,
  max_attempts integer not null check (max_attempts > 0),
  lease_id uuid,
  lease_until timestamptz(3),
  cancel_requested boolean not null default false,
  progress jsonb,
  result jsonb,
  error text,
  created_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  -- When the row of an ended job may be removed.
  expires_at timestamptz(3),
  check ((state = 'running') = (lease_id is not null)),
  check ((state in ('queued', 'running')) = (expires_at is null))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create unique index background_jobs_key on background_jobs (name, key);
create index background_jobs_waiting on background_jobs (name, turn, run_at, id) where state = 'queued';
-- By which it is found whose turn it is: the partner whose last job was begun earliest.
create index background_jobs_begun on background_jobs (name, turn, started_at) where started_at is not null;
create index background_jobs_deadline on background_jobs (deadline) where state = 'queued';
create index background_jobs_running on background_jobs (lease_until) where state = 'running';
create index background_jobs_expiry on background_jobs (expires_at);
select protect_table('background_jobs', null);

-- Adds a job in the transaction of the caller. Returns the id of the job that has the key, and whether it is new.
create function enqueue_job(
  new_id uuid, job_name text, job_key text, job_partner_id uuid, job_input jsonb, job_sealed_input text,
  delay_seconds double precision, deadline_seconds double precision, attempts integer
) returns table (id uuid, added boolean)
language plpgsql volatile security definer set search_path = pg_catalog, public as $$
#variable_conflict use_column
declare
  known uuid;
begin
  loop
    insert into background_jobs (id, name, key, partner_id, input, sealed_input, run_at, deadline, max_attempts)
    values (new_id, job_name, job_key, job_partner_id, job_input, job_sealed_input,
      now() + make_interval(secs => delay_seconds), now() + make_interval(secs => deadline_seconds), attempts)
    on conflict (name, key) do nothing;
    if found then
      return query select new_id, true;
      return;
    end if;
    select j.id into known from background_jobs j where j.name = job_name and j.key = job_key;
    if found then
      return query select known, false;
      return;
    end if;
    -- It has just been removed: the next turn adds this one.
  end loop;
end
$$;
revoke execute on function enqueue_job(uuid, text, text, uuid, jsonb, text, double precision, double precision, integer)
  from public;
grant execute on function enqueue_job(uuid, text, text, uuid, jsonb, text, double precision, double precision, integer)
  to svc_app, svc_system;

-- When each recurring job is due next: in the database, so that one server of several adds it, and so that a time that
-- passed while no server ran is made up for.
create table job_schedules (
  name varchar(80) primary key,
  cron varchar(100) not null,
  time_zone varchar(64) not null,
  next_at timestamptz(3) not null
);
select protect_table('job_schedules', null);

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function enqueue_job(uuid, text, text, uuid, jsonb, text, double precision, double precision, integer)
  owner to svc_system;
revoke create on schema public from svc_system;
