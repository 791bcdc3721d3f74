-- Days of the metric history that are over, with a figure for each minute (docs/decisions/metrics.md). The hours of
-- `metric_minutes` are joined into them. A table of its own, because the former release would take a row of the new format
-- for one that it may replace.

create or replace function partition_span(parent text) returns interval language sql immutable as $$
  select case parent
    when 'metric_samples' then interval '1 hour'
    when 'metric_minutes' then interval '1 day'
    when 'metric_days' then interval '1 day'
    when 'metric_quarters' then interval '7 days'
    when 'metric_hours' then interval '30 days'
    when 'presence_changes' then interval '30 days'
    when 'event_logs_recent' then interval '7 days'
    when 'diagnostic_logs_recent' then interval '7 days'
    when 'webhook_events' then interval '7 days'
    when 'webhook_deliveries' then interval '7 days'
  end
$$;

-- A row for each device and day (UTC).
create table metric_days (
  device_id uuid not null,
  org_id uuid not null,
  begins_at timestamptz(3) not null,
  -- src/features/metrics/compact-block.ts describes the format.
  block bytea not null,
  primary key (device_id, begins_at)
) partition by range (begins_at);
select protect_table('metric_days', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
-- Tenants only read it.
grant insert, update, delete on metric_days to svc_system;

-- As `move_metric_history` for the other tables of the history (0021_metrics.sql).
create function move_metric_days() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update metric_days set org_id = new.org_id where device_id = new.id;
  return new;
end
$$;
revoke execute on function move_metric_days() from public;
grant create on schema public to svc_system;
alter function move_metric_days() owner to svc_system;
revoke create on schema public from svc_system;
create trigger devices_move_metric_days before update of org_id on devices
  for each row when (old.org_id <> new.org_id) execute function move_metric_days();

-- For the first days of a server; it creates the others itself.
select add_partitions('metric_days', now() - interval '3 days', now());
