-- The metric history of devices (docs/decisions/metrics.md). What a device sends is first added as it came, a row for
-- each message and hour, and an hour later packed into one row for each device and hour. Days that are over are summed
-- up in points of a quarter of an hour and of an hour. The name of a table is the distance of its points.

-- Partitions by time. A server creates those to come and drops those whose time is over; it owns no table, so it does
-- both by these functions, which touch nothing but the tables that `partition_span` knows.
create function partition_span(parent text) returns interval language sql immutable as $$
  select case parent
    when 'metric_samples' then interval '1 hour'
    when 'metric_minutes' then interval '1 day'
    when 'metric_quarters' then interval '7 days'
    when 'metric_hours' then interval '30 days'
    when 'presence_changes' then interval '30 days'
  end
$$;

-- Creates the missing partitions for the rows between two times, and returns how many there were none of. A partition
-- is made apart and attached, which neither reads nor writes of the table wait for.
create function add_partitions(parent text, first timestamptz, last timestamptz) returns integer
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
  while begins <= last loop
    part := parent || to_char(begins, '"_p"YYYYMMDDHH24');
    if to_regclass('public.' || part) is null then
      execute format('create table public.%I (like public.%I including defaults including constraints)', part, parent);
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

-- Drops the partitions that end by then, oldest first, and returns how many. It waits for those who use the table for a
-- moment only, because everything behind it would wait too; whoever calls it tries again.
create function drop_partitions(parent text, until timestamptz, at_most integer default 100) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, public set timezone = 'UTC'
set lock_timeout = '300ms' as $$
declare
  ended record;
  dropped integer := 0;
begin
  if partition_span(parent) is null then raise exception 'the table % has no partitions by time', parent; end if;
  for ended in
    select c.oid::regclass as part from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('public.%I', parent)::regclass
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$)::timestamptz <= until
    order by c.relname limit at_most
  loop
    execute format('drop table %s', ended.part);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
revoke execute on function add_partitions, drop_partitions from public;
grant execute on function add_partitions, drop_partitions to svc_system;

-- No table here has a key to `devices`: a new partition with one would lock `devices`, and every write would look up
-- its row there. Rows of a device that moves follow it by the trigger below; writers lock the row of the device first.

create table metric_samples (
  device_id uuid not null,
  org_id uuid not null,
  -- When the server stored it. Samples that were kept through an outage are up to a day older.
  arrived_at timestamptz(3) not null default now(),
  -- The hour (UTC) of the samples.
  begins_at timestamptz(3) not null,
  -- src/features/metrics/block.ts describes the format.
  block bytea not null
) partition by range (arrived_at);
create index metric_samples_of_device on metric_samples (device_id, begins_at);
-- What came in the last minutes lies together, so a few pages lead to it.
create index metric_samples_by_arrival on metric_samples using brin (arrived_at) with (pages_per_range = 16, autosummarize = on);
select protect_table('metric_samples', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');

-- A row for each device and hour.
create table metric_minutes (
  device_id uuid not null,
  org_id uuid not null,
  begins_at timestamptz(3) not null,
  block bytea not null,
  primary key (device_id, begins_at)
) partition by range (begins_at);
select protect_table('metric_minutes', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');

-- A row for each device and day (UTC).
create table metric_quarters (
  device_id uuid not null,
  org_id uuid not null,
  begins_at timestamptz(3) not null,
  block bytea not null,
  primary key (device_id, begins_at)
) partition by range (begins_at);
select protect_table('metric_quarters', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');

-- A row for each device and day (UTC).
create table metric_hours (
  device_id uuid not null,
  org_id uuid not null,
  begins_at timestamptz(3) not null,
  block bytea not null,
  primary key (device_id, begins_at)
) partition by range (begins_at);
select protect_table('metric_hours', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');

-- When devices connected and disconnected, and why: the reasons of the gaps in their history.
create table presence_changes (
  device_id uuid not null,
  org_id uuid not null,
  at timestamptz(3) not null,
  state text not null check (state in ('connected', 'disconnected')),
  reason text not null,
  primary key (device_id, at)
) partition by range (at);
select protect_table('presence_changes', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');

-- Tenants only read it.
grant insert, update, delete on metric_samples, metric_minutes, metric_quarters, metric_hours, presence_changes
  to svc_system;

-- Which days are summed up. One row, which the server that sums up locks.
create table metric_progress (
  the_only boolean primary key default true check (the_only),
  -- Days before this one are in `metric_quarters` and `metric_hours`, and change no more.
  summed_up_until timestamptz(3) not null default '-infinity'
);
select protect_table('metric_progress', null);
insert into metric_progress default values;

-- For how many days an organization keeps its history, if it keeps it shorter than the server.
create table metric_retention (
  org_id uuid primary key references organizations (id),
  minute_days integer not null check (minute_days between 1 and 14),
  quarter_days integer not null check (quarter_days between 1 and 90),
  hour_days integer not null check (hour_days between 1 and 730),
  updated_at timestamptz(3) not null default now()
);
select protect_table('metric_retention', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- The history of a device follows it to another organization. Before the update: what belongs to a device is changed
-- before its presence, for whose row heartbeats of other devices wait (docs/decisions/migrations.md, rule 7).
create function move_metric_history() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update metric_samples set org_id = new.org_id where device_id = new.id;
  update metric_minutes set org_id = new.org_id where device_id = new.id;
  update metric_quarters set org_id = new.org_id where device_id = new.id;
  update metric_hours set org_id = new.org_id where device_id = new.id;
  update presence_changes set org_id = new.org_id where device_id = new.id;
  return new;
end
$$;
revoke execute on function move_metric_history() from public;
grant create on schema public to svc_system;
alter function move_metric_history() owner to svc_system;
revoke create on schema public from svc_system;
create trigger devices_move_metric_history before update of org_id on devices
  for each row when (old.org_id <> new.org_id) execute function move_metric_history();

-- For the first hours of a server; it creates the others itself.
select add_partitions('metric_samples', now() - interval '1 hour', now() + interval '3 hours'),
  add_partitions('metric_minutes', now() - interval '2 days', now() + interval '2 days'),
  add_partitions('metric_quarters', now() - interval '2 days', now() + interval '2 days'),
  add_partitions('metric_hours', now() - interval '2 days', now() + interval '2 days'),
  add_partitions('presence_changes', now() - interval '2 days', now() + interval '2 days');
