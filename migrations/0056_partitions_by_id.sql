-- Partitions for the events of webhooks and their deliveries (docs/decisions/partitions.md): all of them end at the same
-- age. They lie by the time in the id of the event, which the database makes, so ids stay unique in the whole table.

-- The first id of a time: UUIDv7 begins with the milliseconds since 1970.
create function first_row_id(at timestamptz) returns uuid language sql immutable parallel safe as $$
  select rpad(lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;
create function time_of_row_id(id uuid) returns timestamptz language sql immutable parallel safe as $$
  select to_timestamp(('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0)
$$;

-- As in 0050_log_partitions.sql. New is that the bounds may be ids. A partition for what no other one takes has neither.
create or replace function partitions_of(parent text) returns table (part text, begins timestamptz, ends timestamptz)
language sql stable set search_path = pg_catalog, public set timezone = 'UTC' as $$
  select relname::text,
    case when lower_bound ~ '^[0-9a-f]{8}-' then time_of_row_id(lower_bound::uuid) else lower_bound::timestamptz end,
    case when upper_bound ~ '^[0-9a-f]{8}-' then time_of_row_id(upper_bound::uuid) else upper_bound::timestamptz end
  from (
    select relname, substring(bound from $re$FROM \('([^']+)'\)$re$) as lower_bound,
      substring(bound from $re$TO \('([^']+)'\)$re$) as upper_bound
    from (
      select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = to_regclass(format('public.%I', parent))
    ) parts
  ) bounds order by 3
$$;

create or replace function partition_span(parent text) returns interval language sql immutable as $$
  select case parent
    when 'metric_samples' then interval '1 hour'
    when 'metric_minutes' then interval '1 day'
    when 'metric_quarters' then interval '7 days'
    when 'metric_hours' then interval '30 days'
    when 'presence_changes' then interval '30 days'
    when 'event_logs_recent' then interval '7 days'
    when 'diagnostic_logs_recent' then interval '7 days'
    when 'webhook_events' then interval '7 days'
    when 'webhook_deliveries' then interval '7 days'
  end
$$;

-- A bound of a partition of that table, as text.
create function partition_bound(parent text, at timestamptz) returns text language sql stable as $$
  select case when parent in ('webhook_events', 'webhook_deliveries') then first_row_id(at)::text else at::text end
$$;

-- As in 0050_log_partitions.sql, but for the bounds and for tables with a default partition.
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
      begin
        execute format('create table public.%I (like public.%I including defaults including constraints)', part, parent);
        if partition_key(parent) is not null then
          execute format('create unique index on public.%I (%s)', part, partition_key(parent));
        end if;
        -- Rows are reached by way of the table, whose policies count then; tenants are let at no partition itself.
        perform protect_table(format('public.%I', part)::regclass, null);
        execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', parent, part,
          partition_bound(parent, begins), partition_bound(parent, begins + make_interval(secs => seconds)));
        added := added + 1;
      exception when check_violation then
        -- The default partition has rows of that time, and keeps taking them. Later times get their own all the same.
        null;
      end;
    end if;
    begins := begins + make_interval(secs => seconds);
  end loop;
  return added;
end
$$;

-- What lets the tables of the former release become first partitions without being read under a lock. They hold what is
-- written in the next four weeks, which is by far longer than the files that follow may take.
do $$
declare
  seconds constant bigint := extract(epoch from partition_span('webhook_events'));
  ends constant uuid :=
    first_row_id(to_timestamp((floor(extract(epoch from now() + interval '28 days') / seconds) + 1) * seconds));
begin
  execute format(
    'alter table webhook_events add constraint webhook_events_first_partition check (id < %L) not valid', ends);
  execute format(
    'alter table webhook_deliveries add constraint webhook_deliveries_first_partition check (event_id < %L) not valid',
    ends);
end
$$;
