-- Restores of backup snapshots to devices (SPEC 4.13, SHAPES 11; docs/decisions/backup-restores.md).
create table backup_restores (
  id uuid primary key,
  org_id uuid not null,
  -- Where the data is restored to.
  device_id uuid not null,
  -- Null where the snapshot is gone for good.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  -- The state of the repository that is restored from; null: as it is.
  as_of timestamptz(3),
  -- Everything where it is null.
  selected_paths jsonb,
  -- Without one, a folder of the agent, which its result names.
  target_path varchar(4096),
  overwrite text not null check (overwrite in ('never', 'ifNewer', 'always')),
  dry_run boolean not null default false,
  status text not null default 'pending'
    check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'cancelled')),
  -- Of the newest attempt; the ledger keeps the earlier ones.
  command_id uuid not null,
  credential_id uuid,
  attempts integer not null default 1,
  -- A restore whose device has not fetched it by then has failed.
  expires_at timestamptz(3) not null,
  progress jsonb,
  restored_bytes bigint,
  restored_files bigint,
  skipped_files bigint,
  failed_count bigint not null default 0,
  -- The first of them: [{ path, message }].
  failed jsonb not null default '[]',
  error_code varchar(64),
  error_message varchar(2000),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_restores_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
create unique index backup_restores_of_command on backup_restores (command_id);
create index backup_restores_of_device on backup_restores (device_id, created_at desc, id desc);
create index backup_restores_of_org on backup_restores (org_id, created_at desc, id desc);
create index backup_restores_of_snapshot on backup_restores (snapshot_id);
create index backup_restores_by_age on backup_restores (org_id, finished_at) where finished_at is not null;
select protect_table('backup_restores', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_restores to svc_system;

-- A restore follows its command in the same transaction, whoever changes that, so neither a server that dies nor a device
-- that reports late leaves the two apart. With the end of the command the credential of the repository ends.
create function follow_restore_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  output jsonb;
begin
  if new.finished_at is null then
    update backup_restores set
      status = case when new.status in ('accepted', 'running') then 'running' else 'pending' end,
      started_at = coalesce(started_at, case when new.status in ('accepted', 'running') then now() end),
      progress = coalesce(new.progress, progress),
      updated_at = now()
    where command_id = new.id and finished_at is null;
    return null;
  end if;
  if new.status = 'succeeded' then
    output := new.output;
  elsif new.late_result ->> 'status' = 'succeeded' then
    output := new.late_result -> 'output';
  end if;
  update backup_restores set
    status = case
      when output is not null then output ->> 'status'
      when new.status = 'cancelled' then 'cancelled'
      else 'failed' end,
    target_path = coalesce(output ->> 'targetPath', target_path),
    restored_files = coalesce((output ->> 'filesRestored')::bigint, restored_files),
    restored_bytes = coalesce((output ->> 'bytesRestored')::bigint, restored_bytes),
    skipped_files = coalesce((output ->> 'filesSkipped')::bigint, skipped_files),
    failed_count = coalesce((output -> 'failed' ->> 'count')::bigint, failed_count),
    failed = coalesce(output -> 'failed' -> 'paths', failed),
    error_code = case
      when output is not null or new.status = 'cancelled' then null
      else left(coalesce(new.error ->> 'code', upper(new.status)), 64) end,
    error_message = case
      when output is not null or new.status = 'cancelled' then null
      when new.error ->> 'message' is not null then left(new.error ->> 'message', 2000)
      when new.status = 'expired' then 'The device did not connect before the restore expired.'
      when new.reason = 'no_receipt' then 'The device was sent the restore and has not confirmed it.'
      else 'The device has not reported the result of the restore in time.' end,
    finished_at = coalesce(finished_at, new.finished_at),
    updated_at = now()
  where command_id = new.id;
  update backup_store_credentials c set ended_at = now()
  from backup_restores r where r.command_id = new.id and c.id = r.credential_id and c.ended_at is null;
  return null;
end
$$;
revoke execute on function follow_restore_command() from public;
grant create on schema public to svc_system;
alter function follow_restore_command() owner to svc_system;
revoke create on schema public from svc_system;
create trigger commands_of_restores after update of status, progress, late_result on commands
  for each row when (new.type = 'backup.restore'
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_restore_command();

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0084 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
