-- Vaults: copies of the repositories of devices at a second place (SPEC 4.13, SHAPES 11; docs/decisions/backup-vaults.md).

-- The repository of a vault is one like others, with snapshots of its own: they can be browsed, restored and held.
alter table backup_repositories add column is_vault boolean not null default false;
-- Of a snapshot in a vault: the one that it is a copy of.
alter table backup_snapshots
  add column copy_of uuid,
  add constraint backup_snapshots_copy_of_fkey foreign key (copy_of) references backup_snapshots (id)
    on delete set null not valid;
create index backup_snapshots_copies on backup_snapshots (copy_of) where copy_of is not null;

-- `vault`: a device that copies into a vault.
alter table backup_store_credentials
  drop constraint backup_store_credentials_role_check,
  add constraint backup_store_credentials_role_check check (role in ('device', 'vault', 'server', 'reader', 'as-of'))
    not valid;

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

create table backup_vault_syncs (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  vault_id uuid not null references backup_vaults (id) on delete cascade,
  reason text not null check (reason in ('manual', 'backup', 'schedule')),
  -- Where only this one is to be copied.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  status text not null default 'pending' check (status in ('pending', 'running', 'completed', 'failed', 'cancelled')),
  -- The command of the ledger, from when the sync was handed to its device.
  command_id uuid,
  source_credential_id uuid,
  vault_credential_id uuid,
  -- The snapshots that the device was told to copy, by the ids of the engine.
  wanted jsonb not null default '[]',
  -- A sync that has not begun by then has failed.
  expires_at timestamptz(3) not null,
  cancel_requested_at timestamptz(3),
  progress jsonb,
  copied_snapshots integer,
  error_code varchar(64),
  error_message varchar(2000),
  -- Null: by the server itself.
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_vault_syncs_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
-- One at a time into each vault, on however many servers.
create unique index backup_vault_syncs_in_flight on backup_vault_syncs (vault_id) where finished_at is null;
create index backup_vault_syncs_waiting on backup_vault_syncs (created_at, id)
  where finished_at is null and command_id is null;
create unique index backup_vault_syncs_of_command on backup_vault_syncs (command_id) where command_id is not null;
create index backup_vault_syncs_of_vault on backup_vault_syncs (vault_id, created_at desc, id desc);
create index backup_vault_syncs_of_device on backup_vault_syncs (org_id, device_id);
create index backup_vault_syncs_by_age on backup_vault_syncs (org_id, finished_at) where finished_at is not null;
select protect_table('backup_vault_syncs', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_vault_syncs to svc_system;

-- A sync follows its command, as a backup job does: what the device reports is in the sync with the same statement, and
-- the end of the command adds the background job that settles it, whoever ended it.
create function follow_vault_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  followed uuid;
begin
  update backup_vault_syncs set
    status = case when new.status in ('accepted', 'running') then 'running' else status end,
    started_at = case when new.status in ('accepted', 'running') then coalesce(started_at, now()) else started_at end,
    progress = coalesce(new.progress, progress),
    updated_at = now()
  where command_id = new.id and finished_at is null
  returning id into followed;
  if new.finished_at is null then
    return null;
  end if;
  if followed is null then
    -- It has ended, by a time limit for example, before the device reported.
    select id into followed from backup_vault_syncs where command_id = new.id;
  end if;
  if followed is not null then
    perform enqueue_job(gen_random_uuid(), 'backup.settle-vault-sync',
      new.id || case when new.late_result is null then '' else ' late' end, null,
      jsonb_build_object('syncId', followed, 'commandId', new.id), null, 0, 30 * 24 * 3600, 20);
  end if;
  return null;
end
$$;
revoke execute on function follow_vault_command() from public;
grant create on schema public to svc_system;
alter function follow_vault_command() owner to svc_system;
revoke create on schema public from svc_system;
create trigger commands_of_vaults after update of status, progress, late_result on commands
  for each row when (new.type = 'backup.vault-sync'
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_vault_command();

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0091 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
