-- What agents send of their own log and of their machine's event logs, to be read when the machine is away
-- (SPEC 2.16, 2.17), and alerts that the server raises by itself (SPEC 4.7, SHAPES 8).

-- Nobody changes what a device has said: it is added, and removed across tenants when its time is over. Logs are
-- written in batches, read by device and removed by the day on which they arrived, so that is what is indexed, and
-- nothing else.
create table device_event_logs (
  id uuid primary key,
  device_id uuid not null,
  org_id uuid not null,
  "timestamp" timestamptz(3) not null,
  level text not null check (level in ('info', 'warning', 'error', 'critical')),
  category text not null check (category in ('security', 'hardware', 'application', 'system')),
  source varchar(255) not null,
  event_id varchar(100),
  message text not null,
  details jsonb,
  created_at timestamptz(3) not null default now(),
  -- An event without an id is always another one.
  unique (device_id, source, event_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index device_event_logs_of_device on device_event_logs (device_id, "timestamp" desc, id desc);
create index device_event_logs_by_arrival on device_event_logs (device_id, created_at);
select protect_table('device_event_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');
grant delete on device_event_logs to svc_system;

create table agent_logs (
  id uuid primary key,
  device_id uuid not null,
  org_id uuid not null,
  "timestamp" timestamptz(3) not null,
  level text not null check (level in ('debug', 'info', 'warn', 'error')),
  component varchar(100) not null,
  message text not null,
  fields jsonb,
  agent_version varchar(50),
  created_at timestamptz(3) not null default now(),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index agent_logs_of_device on agent_logs (device_id, "timestamp" desc, id desc);
create index agent_logs_by_arrival on agent_logs (device_id, created_at);
select protect_table('agent_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');
grant delete on agent_logs to svc_system;

-- What each device has had stored of its logs, by the day (UTC) on which it arrived: the budgets of devices and
-- organizations count these rows instead of the logs themselves (docs/decisions/row-life.md).
create table stored_log_days (
  device_id uuid not null,
  org_id uuid not null,
  day date not null,
  entries bigint not null default 0,
  bytes bigint not null default 0,
  primary key (device_id, day),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index stored_log_days_of_organization on stored_log_days (org_id, day) include (entries, bytes);
select protect_table('stored_log_days', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on stored_log_days to svc_system;

-- For how many days each kind is kept. Where an organization has no row, the defaults of the server apply.
create table log_retention (
  org_id uuid primary key references organizations (id),
  diagnostic_days integer not null check (diagnostic_days between 1 and 3650),
  event_days integer not null check (event_days between 1 and 3650),
  -- Of ended commands and resolved alerts.
  command_days integer not null default 90 check (command_days between 1 and 3650),
  alert_days integer not null default 365 check (alert_days between 1 and 3650),
  -- What happens when the stored logs reach their budget in total: new ones are refused, or the oldest are removed
  -- (docs/decisions/row-life.md).
  when_full text not null default 'refuse' check (when_full in ('refuse', 'remove_oldest')),
  -- The last arrival day (UTC) whose removal was decided and has not ended yet.
  removing_through date,
  updated_at timestamptz(3) not null default now()
);
select protect_table('log_retention', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

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
  -- The server sees the cause and will see its end: until then nothing is raised for it, even if a person has
  -- resolved the alert.
  cause_lasts boolean not null default false,
  acknowledged_at timestamptz(3),
  acknowledged_by uuid references users (id) on delete set null,
  resolved_at timestamptz(3) check ((resolved_at is null) = (status <> 'resolved')),
  resolved_by uuid references users (id) on delete set null,
  -- What people have noted, the latest.
  note varchar(2000),
  -- Why it has resolved itself; null where a person has resolved it.
  resolution varchar(300),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create unique index alerts_standing on alerts (subject_id, kind) where status <> 'resolved' or cause_lasts;
create index alerts_of_subject on alerts (subject_id, raised_at desc, id desc);
create index alerts_by_org on alerts (org_id, raised_at desc, id desc);
create index alerts_lasting on alerts (kind, subject_id) where cause_lasts;
create index alerts_ended on alerts (org_id, resolved_at)
  where status = 'resolved' and not cause_lasts;
-- No request deletes an alert.
select protect_table('alerts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
-- Alerts that were resolved long ago are removed across tenants (docs/decisions/row-life.md).
grant delete on alerts to svc_system;

-- Where an organization has no row, the defaults of the server apply. Null switches the alert off.
create table alert_settings (
  org_id uuid primary key references organizations (id),
  offline_after_minutes integer check (offline_after_minutes between 1 and 43200),
  disk_percent integer check (disk_percent between 50 and 100),
  updated_at timestamptz(3) not null default now()
);
select protect_table('alert_settings', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- One row. The server that looks for causes of alerts locks it, so that only one looks at a time.
create table alert_rounds (
  the_only boolean primary key default true check (the_only),
  -- Changes until this time were looked at, and when everything was looked at last.
  through timestamptz(3) not null default now(),
  whole_at timestamptz(3) not null default '-infinity',
  -- No server looked before this time: devices are given some time to come back.
  watched_since timestamptz(3) not null default '-infinity'
);
select protect_table('alert_rounds', null);
insert into alert_rounds default values;
