-- What the server does for repositories by itself, what it knows of how well devices are protected
-- (docs/decisions/backup-care.md), and vaults: copies of the repositories of devices at a second place
-- (docs/decisions/backup-vaults.md).

-- What a verification has found. The rest of it is work.
create table backup_verification_facts (
  id uuid primary key,
  org_id uuid not null,
  repository_id uuid references backup_repositories (id) on delete set null,
  config_id uuid references backup_configs (id) on delete set null,
  -- Of a test restore: what was restored.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  verification_type text not null check (verification_type in ('integrity', 'test_restore')),
  files_verified integer not null default 0,
  files_failed integer not null default 0,
  size_bytes bigint not null default 0,
  -- How long the device took to restore the sample.
  restore_seconds real,
  details jsonb not null default '{}',
  unique (org_id, id),
  foreign key (org_id, id) references work (org_id, id) on delete cascade on update cascade
);
create index backup_verification_facts_of_repository
  on backup_verification_facts (repository_id, verification_type, id desc);
create index backup_verification_facts_of_config on backup_verification_facts (config_id);
create index backup_verification_facts_of_snapshot on backup_verification_facts (snapshot_id);
select protect_table('backup_verification_facts', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_verification_facts to svc_system;

-- For reading, by the rights of the reader.
create view backup_verifications with (security_invoker = true) as
select w.id, w.org_id, w.device_id, f.repository_id, f.config_id, f.snapshot_id, f.verification_type,
  case w.status when 'completed' then 'passed' when 'cancelled' then 'failed' else w.status end as status,
  w.command_id, w.progress, w.stalled_since, f.files_verified, f.files_failed, f.size_bytes, f.restore_seconds,
  f.details, w.error_code, w.error_message, w.created_by, w.created_at, w.updated_at, w.started_at, w.finished_at
from backup_verification_facts f join work w on w.id = f.id;
grant select on backup_verifications to svc_app, svc_system;

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

create table backup_vaults (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  name varchar(200) not null check (name <> ''),
  -- What is copied, and the copy.
  source_repository_id uuid not null references backup_repositories (id) on delete cascade,
  repository_id uuid not null unique references backup_repositories (id) on delete cascade,
  provider text not null check (provider in ('server', 's3', 'local')),
  -- Without secrets; `sealed_secret` holds the one that the provider has.
  details jsonb not null,
  sealed_secret text,
  is_active boolean not null default true,
  sync_after_backup boolean not null,
  schedule jsonb,
  retention_count smallint not null check (retention_count between 1 and 100),
  max_lag_hours integer not null check (max_lag_hours > 0),
  -- By its schedule, or after a sync that has failed.
  next_sync_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index backup_vaults_of_device on backup_vaults (org_id, device_id);
create index backup_vaults_of_source on backup_vaults (source_repository_id);
create index backup_vaults_due on backup_vaults (next_sync_at) where is_active and next_sync_at is not null;
select protect_table('backup_vaults', 'org_id = any((select app_org_ids())::uuid[])');

-- What belongs to a sync of a vault alone. The rest of it is work, one piece at a time for each vault.
create table backup_vault_sync_facts (
  id uuid primary key,
  org_id uuid not null,
  vault_id uuid not null references backup_vaults (id) on delete cascade,
  reason text not null check (reason in ('manual', 'backup', 'schedule')),
  -- Where only this one is to be copied.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  -- The snapshots that the device was told to copy, by the ids of the engine.
  wanted jsonb not null default '[]',
  copied_snapshots integer,
  unique (org_id, id),
  foreign key (org_id, id) references work (org_id, id) on delete cascade on update cascade
);
create index backup_vault_sync_facts_of_vault on backup_vault_sync_facts (vault_id, id desc);
create index backup_vault_sync_facts_of_snapshot on backup_vault_sync_facts (snapshot_id)
  where snapshot_id is not null;
select protect_table('backup_vault_sync_facts', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_vault_sync_facts to svc_system;

-- For reading, by the rights of the reader.
create view backup_vault_syncs with (security_invoker = true) as
select w.id, w.org_id, w.device_id, f.vault_id, f.reason, f.snapshot_id, w.status, w.command_id, f.wanted,
  w.deadline_at as expires_at, w.cancel_requested_at, w.progress, w.stalled_since, f.copied_snapshots,
  w.error_code, w.error_message, w.created_by, w.created_at, w.updated_at, w.started_at, w.finished_at
from backup_vault_sync_facts f join work w on w.id = f.id;
grant select on backup_vault_syncs to svc_app, svc_system;

-- A device that has left service does not finish its backups and restores: a person who has the machine could go on
-- reading and writing.
create function end_store_credentials_of_device() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
  update backup_store_credentials set ended_at = now()
  where ended_at is null and id in (
    select c.id from work w join backup_store_credentials c on c.job_id = w.id and c.ended_at is null
      where w.org_id = new.org_id and w.device_id = new.id and w.finished_at is null
    union all select credential_id from backup_vm_restores where device_id = new.id);
  return null;
end
$$;
revoke execute on function end_store_credentials_of_device() from public;
create trigger devices_store_credentials_end after update of condition on devices
  for each row when (old.condition is distinct from new.condition and new.condition = 'decommissioned')
  execute function end_store_credentials_of_device();

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function end_store_credentials_of_device() owner to svc_system;
revoke create on schema public from svc_system;
