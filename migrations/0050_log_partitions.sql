-- Partitions by time for the event logs and diagnostic logs of devices (docs/decisions/log-partitions.md): their time
-- ends by dropping partitions. `event_logs` and `diagnostic_logs` are what servers write and read from now on. The
-- tables of the former release stay as their first partitions: the release writes to them, and can be started again.

-- The names of partitions, and what they hold. The first of a table may have no beginning: it is null then.
create function partitions_of(parent text) returns table (part text, begins timestamptz, ends timestamptz)
language sql stable set search_path = pg_catalog, public set timezone = 'UTC' as $$
  select relname::text, substring(bound from $re$FROM \('([^']+)'\)$re$)::timestamptz,
    substring(bound from $re$TO \('([^']+)'\)$re$)::timestamptz
  from (
    select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(format('public.%I', parent))
  ) parts order by 3
$$;
revoke execute on function partitions_of from public;
grant execute on function partitions_of to svc_app, svc_system;

create or replace function partition_span(parent text) returns interval language sql immutable as $$
  select case parent
    when 'metric_samples' then interval '1 hour'
    when 'metric_minutes' then interval '1 day'
    when 'metric_quarters' then interval '7 days'
    when 'metric_hours' then interval '30 days'
    when 'presence_changes' then interval '30 days'
    when 'event_logs_recent' then interval '7 days'
    when 'diagnostic_logs_recent' then interval '7 days'
  end
$$;

-- The columns by which the rows of one partition are unique. Postgres cannot have such a key for the whole table, which
-- would have to contain the time of the partitions: writers look for the ids of a device in all of them. The ids come
-- before the source, so that one search finds those of a batch.
create function partition_key(parent text) returns text language sql immutable as $$
  select case parent when 'event_logs_recent' then 'device_id, event_id, source' end
$$;

-- As in 0021_metrics.sql. New is that a partition gets its unique index, and that nothing is created for the time of a
-- first partition without a beginning.
create or replace function add_partitions(parent text, first timestamptz, last timestamptz) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, public set timezone = 'UTC' as $$
declare
  seconds constant bigint := extract(epoch from partition_span(parent));
  begins timestamptz := to_timestamp(floor(extract(epoch from first) / seconds) * seconds);
  part text;
  added integer := 0;
begin
  if seconds is null then raise exception 'the table % has no partitions by time', parent; end if;
  if last > first + 1000 * partition_span(parent) then raise exception 'too many partitions at once'; end if;
  -- Two servers that start at once would both create the same.
  perform pg_advisory_xact_lock(hashtextextended('partitions of ' || parent, 0));
  begins := greatest(begins, (select max(p.ends) from partitions_of(parent) p where p.begins is null));
  while begins <= last loop
    part := parent || to_char(begins, '"_p"YYYYMMDDHH24');
    if to_regclass('public.' || part) is null then
      execute format('create table public.%I (like public.%I including defaults including constraints)', part, parent);
      if partition_key(parent) is not null then
        execute format('create unique index on public.%I (%s)', part, partition_key(parent));
      end if;
      -- Rows are reached by way of the table, whose policies count then; tenants are let at no partition itself.
      perform protect_table(format('public.%I', part)::regclass, null);
      execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', parent, part,
        begins, begins + make_interval(secs => seconds));
      added := added + 1;
    end if;
    begins := begins + make_interval(secs => seconds);
  end loop;
  return added;
end
$$;

-- Drops the partition that ends at a time in the past. Returns whether there was one. It waits for those who use the
-- table for a moment only, because everything behind it would wait too; whoever calls it tries again.
create function drop_partition(parent text, ended timestamptz) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, public set timezone = 'UTC'
set lock_timeout = '300ms' as $$
declare
  part text;
begin
  if partition_span(parent) is null then raise exception 'the table % has no partitions by time', parent; end if;
  select p.part into part from partitions_of(parent) p where p.begins is not null and p.ends = ended and ended <= now();
  if part is null then return false; end if;
  execute format('drop table public.%I', part);
  return true;
end
$$;
revoke execute on function drop_partition from public;
grant execute on function drop_partition to svc_system;

-- In two parts: what arrived in a week lies in the partition of the week, and is dropped with it. Rows of organizations
-- that keep their logs longer are put aside before that.
-- No table here has a key to `devices`: a new partition with one would lock `devices`, and every row would be looked up
-- there. Writers lock the row of the device first, and rows of a device that moves or is deleted follow it by triggers.

create table event_logs (
  id uuid not null,
  device_id uuid not null,
  org_id uuid not null,
  "timestamp" timestamptz(3) not null,
  -- The constraints have the names of those of the former table, without which it could not become a partition.
  level text not null constraint device_event_logs_level_check check (level in ('info', 'warning', 'error', 'critical')),
  category text not null constraint device_event_logs_category_check
    check (category in ('security', 'hardware', 'application', 'system')),
  source varchar(255) not null,
  -- An event without an id is always another one.
  event_id varchar(100),
  message text not null,
  details jsonb,
  -- By the clock of the database, so that no device chooses the partition of what it sends.
  created_at timestamptz(3) not null default now(),
  -- Whether it is put aside.
  kept boolean not null default false
) partition by list (kept);
create index event_logs_of_device on event_logs (device_id, "timestamp" desc, id desc);
select protect_table('event_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');
grant update, delete on event_logs to svc_system;

create table event_logs_recent partition of event_logs for values in (false) partition by range (created_at);
select protect_table('event_logs_recent', null);
create table event_logs_kept partition of event_logs for values in (true);
create unique index event_logs_kept_key on event_logs_kept (device_id, event_id, source);
create index event_logs_kept_by_arrival on event_logs_kept (org_id, created_at);
select protect_table('event_logs_kept', null);

create table diagnostic_logs (
  id uuid not null,
  device_id uuid not null,
  org_id uuid not null,
  "timestamp" timestamptz(3) not null,
  level text not null constraint agent_logs_level_check check (level in ('debug', 'info', 'warn', 'error')),
  component varchar(100) not null,
  message text not null,
  fields jsonb,
  agent_version varchar(50),
  created_at timestamptz(3) not null default now(),
  kept boolean not null default false
) partition by list (kept);
create index diagnostic_logs_of_device on diagnostic_logs (device_id, "timestamp" desc, id desc);
select protect_table('diagnostic_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');
grant update, delete on diagnostic_logs to svc_system;

create table diagnostic_logs_recent partition of diagnostic_logs for values in (false) partition by range (created_at);
select protect_table('diagnostic_logs_recent', null);
create table diagnostic_logs_kept partition of diagnostic_logs for values in (true);
create index diagnostic_logs_kept_by_arrival on diagnostic_logs_kept (org_id, created_at);
select protect_table('diagnostic_logs_kept', null);

-- As with the events of the former table (0024_alert_rules.sql).
create trigger event_logs_alert_rules after insert on event_logs
  referencing new table as added for each statement execute function note_alert_rule_checks();

-- The rows of a device that is deleted.
create function delete_logs_of_device() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  delete from event_logs where device_id = old.id;
  delete from diagnostic_logs where device_id = old.id;
  return null;
end
$$;
revoke execute on function delete_logs_of_device() from public;

-- What the former release writes when the time of its tables is over. It takes the events for known ones, and so counts
-- them in no budget.
create function store_event_of_former_release() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('events of ' || new.device_id, 0));
  perform from devices where org_id = new.org_id and id = new.device_id for key share;
  if not found then raise foreign_key_violation using message = 'the device is not in this organization'; end if;
  insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message, details)
  select new.id, new.device_id, new.org_id, new."timestamp", new.level, new.category, new.source, new.event_id,
    new.message, new.details
  where not exists (
    select from event_logs e where e.device_id = new.device_id and e.event_id = new.event_id and e.source = new.source);
  return null;
end
$$;
create function store_diagnostic_line_of_former_release() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform from devices where org_id = new.org_id and id = new.device_id for key share;
  if not found then raise foreign_key_violation using message = 'the device is not in this organization'; end if;
  insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message, fields, agent_version)
  values (new.id, new.device_id, new.org_id, new."timestamp", new.level, new.component, new.message, new.fields,
    new.agent_version);
  return null;
end
$$;

alter table device_event_logs add column kept boolean not null default false;
alter table agent_logs add column kept boolean not null default false;

-- The former tables hold what arrives in the next three days or more. The constraints let them become partitions without
-- being read under a lock: they are validated in a file of their own.
do $$
declare
  seconds constant bigint := extract(epoch from partition_span('event_logs_recent'));
  ends constant timestamptz := to_timestamp((floor(extract(epoch from now() + interval '3 days') / seconds) + 1) * seconds);
  pair text[];
begin
  foreach pair slice 1 in array array[
    ['device_event_logs', 'store_event_of_former_release'], ['agent_logs', 'store_diagnostic_line_of_former_release']
  ] loop
    execute format('alter table %I add constraint %I check (not kept and created_at < %L) not valid', pair[1],
      pair[1] || '_first_partition', ends);
    execute format('create trigger %I before insert on %I for each row when (new.created_at >= %L) execute function %I()',
      pair[1] || '_later', pair[1], ends, pair[2]);
  end loop;
end
$$;

-- The rows of a device that moves. Before the update: what belongs to a device is changed before its presence, for whose
-- row heartbeats of other devices wait (docs/decisions/migrations.md, rule 7). The former tables have keys to `devices` that
-- do this for their rows, and would refuse it here.
create function move_logs_of_device() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update event_logs set org_id = new.org_id
  where device_id = new.id and tableoid is distinct from to_regclass('public.device_event_logs');
  update diagnostic_logs set org_id = new.org_id
  where device_id = new.id and tableoid is distinct from to_regclass('public.agent_logs');
  return new;
end
$$;
revoke execute on function move_logs_of_device() from public;

grant create on schema public to svc_system;
alter function move_logs_of_device() owner to svc_system;
alter function delete_logs_of_device() owner to svc_system;
revoke create on schema public from svc_system;
create trigger devices_move_logs before update of org_id on devices
  for each row when (old.org_id <> new.org_id) execute function move_logs_of_device();
create trigger devices_delete_logs after delete on devices for each row execute function delete_logs_of_device();
