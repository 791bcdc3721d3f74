-- What agents send of their own log and of their machine's event logs, to be read when the machine is away
-- (SPEC 2.16, 2.17). Written in batches and read by device, so that is what is indexed, and nothing else.

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
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index agent_logs_of_device on agent_logs (device_id, "timestamp" desc, id desc);

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
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index device_event_logs_of_device on device_event_logs (device_id, "timestamp" desc, id desc);

-- Nobody changes what a device has said: it is added, and removed when its time is over, across tenants.
select protect_table('agent_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');
select protect_table('device_event_logs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');
revoke delete on agent_logs, device_event_logs from svc_app;

-- For how many days each is kept; where an organization has no row, the server's defaults.
create table log_retention (
  org_id uuid primary key references organizations (id),
  diagnostic_days integer not null check (diagnostic_days between 1 and 3650),
  event_days integer not null check (event_days between 1 and 3650),
  updated_at timestamptz(3) not null default now()
);
select protect_table('log_retention', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
