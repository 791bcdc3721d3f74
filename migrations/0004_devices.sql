-- Devices, how they come in and whether they are there (SPEC 2.5, SHAPES 5).

create table enrollment_keys (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  site_id uuid,
  name varchar(255) not null,
  key_hash char(64) not null unique,
  key_prefix varchar(16) not null,
  usage_count integer not null default 0,
  max_usage integer check (max_usage > 0),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  foreign key (org_id, site_id) references sites (org_id, id) on delete cascade
);
create index enrollment_keys_by_org on enrollment_keys (org_id, created_at desc, id);

create table devices (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  site_id uuid not null,
  hostname varchar(255) not null,
  display_name varchar(255),
  -- What a person or a process has decided about the device. Whether it is connected stands in device_presence,
  -- so that a heartbeat cannot overwrite the one with the other.
  condition text not null default 'normal'
    check (condition in ('normal', 'maintenance', 'updating', 'pending', 'quarantined', 'decommissioned')),
  os_type text not null check (os_type in ('windows', 'macos', 'linux')),
  os_version varchar(200) not null,
  os_build varchar(100),
  architecture text not null check (architecture in ('x64', 'x86', 'arm64')),
  agent_version varchar(50) not null,
  watchdog_version varchar(50),
  machine_id varchar(128),
  tags text[] not null default '{}',
  custom_fields jsonb not null default '{}',
  hardware jsonb not null default '{}',
  network jsonb not null default '{}',
  capabilities text[] not null default '{}',
  auto_update boolean not null default true,
  last_user varchar(255),
  pending_reboot boolean,
  enrolled_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, site_id) references sites (org_id, id)
);
create unique index devices_machine_key on devices (org_id, machine_id) where machine_id is not null;
create index devices_by_hostname on devices (org_id, lower(hostname), id);
create index devices_by_site on devices (org_id, site_id);

-- Narrow and without an index on what changes, so that heartbeats are heap-only updates.
create table device_presence (
  device_id uuid primary key,
  org_id uuid not null,
  epoch bigint not null,
  node_id text not null,
  state text not null check (state in ('connected', 'disconnected')),
  since timestamptz(3) not null,
  reason text not null
    check (reason in ('connected', 'heartbeat_missed', 'socket_closed', 'node_lost', 'updating', 'never_seen')),
  last_seen_at timestamptz(3),
  last_ip varchar(45),
  cpu_percent real,
  ram_percent real,
  disk_percent real,
  metrics_at timestamptz(3),
  uptime_seconds bigint,
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
) with (fillfactor = 50);

create table agent_credentials (
  token_hash char(64) primary key,
  device_id uuid not null,
  org_id uuid not null,
  created_at timestamptz(3) not null default now(),
  revoked_at timestamptz(3),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index agent_credentials_by_device on agent_credentials (device_id);

select protect_table('enrollment_keys', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('devices', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('device_presence', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('agent_credentials', 'org_id = any((select app_org_ids())::uuid[])');
