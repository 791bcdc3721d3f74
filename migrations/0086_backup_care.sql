-- What the server does for repositories by itself, and what it knows of how well devices are protected
-- (docs/decisions/backup-care.md).

alter table backup_repositories
  -- It was opened to a new version of its key; the earlier ones still open it too.
  add column has_old_keys boolean not null default false,
  -- Snapshots were removed, and their data is still there.
  add column prune_due_since timestamptz(3),
  add column pruned_at timestamptz(3),
  -- The data is read in parts, one with each integrity verification. These are those of the present round.
  add column read_parts smallint not null default 0,
  add column read_parts_done smallint not null default 0,
  -- When the last round began that found all data sound.
  add column read_whole_since timestamptz(3);
create index backup_repositories_to_prune on backup_repositories (id) where prune_due_since is not null;
create index backup_repositories_of_key on backup_repositories (encryption_key_id, key_version);

create table backup_verifications (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  repository_id uuid references backup_repositories (id) on delete set null,
  config_id uuid references backup_configs (id) on delete set null,
  -- Of a test restore: what was restored.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  verification_type text not null check (verification_type in ('integrity', 'test_restore')),
  status text not null default 'pending' check (status in ('pending', 'running', 'passed', 'failed', 'partial')),
  -- Of a test restore, from when it was sent to its device.
  command_id uuid,
  credential_id uuid,
  files_verified integer not null default 0,
  files_failed integer not null default 0,
  size_bytes bigint not null default 0,
  -- How long the device took to restore the sample.
  restore_seconds real,
  details jsonb not null default '{}',
  error_code varchar(64),
  error_message varchar(2000),
  -- Null: by the server itself.
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_verifications_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create unique index backup_verifications_in_flight on backup_verifications (repository_id, verification_type)
  where finished_at is null;
create index backup_verifications_of_org on backup_verifications (org_id, created_at desc, id desc);
create index backup_verifications_of_device on backup_verifications (device_id, created_at desc, id desc);
create index backup_verifications_of_repository
  on backup_verifications (repository_id, verification_type, finished_at desc);
create index backup_verifications_by_age on backup_verifications (finished_at) where finished_at is not null;
select protect_table('backup_verifications', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_verifications to svc_system;

-- How much each organization stored at the end of a day, by provider.
create table backup_usage_days (
  org_id uuid not null references organizations (id),
  day date not null,
  provider text not null check (provider in ('server', 's3', 'local')),
  bytes bigint not null check (bytes >= 0),
  snapshots integer not null check (snapshots >= 0),
  primary key (org_id, day, provider)
);
create index backup_usage_days_by_age on backup_usage_days (day);
select protect_table('backup_usage_days', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_usage_days to svc_system;

create table backup_readiness (
  device_id uuid primary key,
  org_id uuid not null,
  score smallint not null check (score between 0 and 100),
  rto_minutes integer,
  rpo_minutes integer,
  risks jsonb not null,
  calculated_at timestamptz(3) not null,
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index backup_readiness_of_org on backup_readiness (org_id, score, device_id);
select protect_table('backup_readiness', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_readiness to svc_system;

create table backup_sla_configs (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  rpo_target_minutes integer not null check (rpo_target_minutes > 0),
  rto_target_minutes integer not null check (rto_target_minutes > 0),
  -- Without devices and groups: all devices of the organization that are backed up.
  target_devices uuid[] not null default '{}',
  target_groups uuid[] not null default '{}',
  alert_on_breach boolean not null default true,
  is_active boolean not null default true,
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id)
);
create unique index backup_sla_configs_name on backup_sla_configs (org_id, lower(name));
select protect_table('backup_sla_configs', 'org_id = any((select app_org_ids())::uuid[])');

create table backup_sla_events (
  id uuid primary key,
  org_id uuid not null,
  sla_config_id uuid references backup_sla_configs (id) on delete cascade,
  device_id uuid not null,
  event_type text not null check (event_type in ('rpo_breach', 'rto_breach', 'missed_backup')),
  details jsonb not null default '{}',
  detected_at timestamptz(3) not null default now(),
  resolved_at timestamptz(3),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create unique index backup_sla_events_open on backup_sla_events (sla_config_id, device_id, event_type)
  where resolved_at is null;
create index backup_sla_events_of_org on backup_sla_events (org_id, detected_at desc, id desc);
create index backup_sla_events_of_device on backup_sla_events (device_id, detected_at desc);
create index backup_sla_events_by_age on backup_sla_events (resolved_at) where resolved_at is not null;
select protect_table('backup_sla_events', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_sla_events to svc_system;

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0087 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
