-- Alerts that the server raises by itself (SPEC 4.7, SHAPES 8), and what they are raised for.

-- UUIDv7, as the application makes them: alerts of many devices are raised in one statement.
create function new_row_id() returns uuid language sql volatile parallel safe as $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1),
    'hex')::uuid
$$;

create table alerts (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  device_id uuid,
  -- What it is about: the device, or else the organization itself.
  subject_id uuid not null generated always as (coalesce(device_id, org_id)) stored,
  kind varchar(64) not null check (kind ~ '^[a-z][a-z0-9_]*$'),
  severity text not null check (severity in ('critical', 'high', 'medium', 'low', 'info')),
  status text not null default 'active' check (status in ('active', 'acknowledged', 'resolved')),
  title varchar(300) not null,
  message varchar(2000) not null,
  details jsonb not null default '{}',
  -- How often the cause has come, the last time at last_at.
  count integer not null default 1,
  raised_at timestamptz(3) not null default now(),
  last_at timestamptz(3) not null default now(),
  -- The server sees the cause and will see its end: until then nothing is raised for it, even if somebody has resolved
  -- the alert.
  cause_lasts boolean not null default false,
  acknowledged_at timestamptz(3),
  acknowledged_by uuid references users (id) on delete set null,
  resolved_at timestamptz(3) check ((resolved_at is null) = (status <> 'resolved')),
  resolved_by uuid references users (id) on delete set null,
  -- What people have noted, the latest.
  note varchar(2000),
  -- Why it has resolved itself; null where somebody has resolved it.
  resolution varchar(300),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create unique index alerts_standing on alerts (subject_id, kind) where status <> 'resolved' or cause_lasts;
create index alerts_of_subject on alerts (subject_id, raised_at desc, id desc);
create index alerts_by_org on alerts (org_id, raised_at desc, id desc);
create index alerts_lasting on alerts (kind, subject_id) where cause_lasts;
-- Nobody deletes what was told.
select protect_table('alerts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- Where an organization has no row, the server's defaults; null switches off.
create table alert_settings (
  org_id uuid primary key references organizations (id),
  offline_after_minutes integer check (offline_after_minutes between 1 and 43200),
  disk_percent integer check (disk_percent between 50 and 100),
  updated_at timestamptz(3) not null default now()
);
select protect_table('alert_settings', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- One row. It is locked by the node that looks, so that one does at a time.
create table alert_rounds (
  the_only boolean primary key default true check (the_only),
  -- Until when it was looked for what has changed, and when last at everything.
  through timestamptz(3) not null default now(),
  whole_at timestamptz(3) not null default '-infinity',
  -- Nobody watched before: devices are given some time to come back.
  watched_since timestamptz(3) not null default '-infinity'
);
select protect_table('alert_rounds', null);
insert into alert_rounds default values;

-- Since when a device is there or gone. Connecting and going change it; the heartbeats of a connection do not, and
-- stay heap-only.
create index device_presence_by_change on device_presence (state, (greatest(since, reports_until)));

-- Of disks that are half full, how full in whole percents: the rest changes with every heartbeat, and is not indexed.
alter table device_presence add column disk_over smallint
  generated always as (case when disk_percent >= 50 then trunc(disk_percent)::smallint end) stored;
create index device_presence_full_disks on device_presence (disk_over) where disk_over is not null;
