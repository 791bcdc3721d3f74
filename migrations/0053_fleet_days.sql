-- The trends of a fleet (src/features/fleet-trends): what was counted of each organization on each day (UTC).

create table fleet_days (
  org_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  -- At the last count of the day.
  devices integer not null default 0,
  alerts_open integer not null default 0,
  -- The greatest of the hourly counts of the day.
  devices_connected integer not null default 0,
  -- During the day, as far as it was counted.
  alerts_raised integer not null default 0,
  backups_completed integer not null default 0,
  backups_failed integer not null default 0,
  counted_at timestamptz(3) not null default now(),
  primary key (org_id, day)
);
create index fleet_days_by_day on fleet_days (day);
select protect_table('fleet_days', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
-- Counted across tenants, and removed by age.
grant insert, update, delete on fleet_days to svc_system;
