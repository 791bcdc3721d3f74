-- Backup jobs and the snapshots that they make (SPEC 4.13, SHAPES 11, 12).

create table backup_jobs (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  -- Null where the configuration was deleted, or belongs to the organization that the device has left.
  config_id uuid references backup_configs (id) on delete set null,
  repository_id uuid references backup_repositories (id) on delete set null,
  type text not null check (type in ('scheduled', 'manual')),
  -- What a person has asked for in place of what the configuration says.
  sources jsonb,
  -- Of databases: what a person has asked for.
  wanted_type text,
  -- What was decided when the job was given to its device, and why.
  backup_type text,
  type_reason varchar(500),
  -- The nominal time of the schedule; of a manual job null.
  slot timestamptz(3),
  -- Not before this time: devices of one slot are spread.
  due_at timestamptz(3) not null default now(),
  status text not null default 'pending'
    check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'cancelled')),
  -- The command of the ledger, from when the job was handed to its device.
  command_id uuid,
  credential_id uuid,
  -- A job that has not begun by then has failed.
  expires_at timestamptz(3) not null,
  cancel_requested_at timestamptz(3),
  phase varchar(50),
  percent real,
  total_bytes bigint,
  done_bytes bigint,
  total_files bigint,
  done_files bigint,
  current_path varchar(4096),
  -- Bytes in a second.
  rate bigint,
  eta_seconds bigint,
  last_progress_at timestamptz(3),
  -- When the device last reported something else than before.
  advanced_at timestamptz(3),
  -- Since when a job that runs has not advanced; null while it does.
  stalled_since timestamptz(3),
  added_bytes bigint,
  error_code varchar(64),
  error_message varchar(2000),
  -- How many paths could not be read, and the first of them: [{ path, message }].
  unreadable_count integer not null default 0,
  unreadable jsonb not null default '[]',
  -- `{ count, paths: [{ path, message }] }`: the virtual file systems below its sources. Null: the device has not said.
  left_out jsonb,
  -- Whether files were read from shadow copies, as the device has reported it: `{ used, problems: [{ volume, message
  -- }], isCut? }`. Null: not of files on Windows, or the device has not said.
  shadow_copies jsonb,
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_jobs_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
  constraint backup_jobs_types check (
    wanted_type in ('full', 'differential', 'log') and backup_type in ('full', 'differential', 'log')),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
-- Once for each device, configuration and slot, on however many servers.
create unique index backup_jobs_slot on backup_jobs (device_id, config_id, slot) where slot is not null;
-- One at a time into each repository.
create unique index backup_jobs_in_flight on backup_jobs (device_id, config_id) where finished_at is null;
create index backup_jobs_open on backup_jobs (due_at, id) where finished_at is null;
create index backup_jobs_of_command on backup_jobs (command_id) where command_id is not null;
create index backup_jobs_of_device on backup_jobs (device_id, created_at desc, id desc);
create index backup_jobs_of_org on backup_jobs (org_id, created_at desc, id desc);
create index backup_jobs_of_config on backup_jobs (config_id, created_at desc);
create index backup_jobs_of_repository on backup_jobs (repository_id);
create index backup_jobs_by_age on backup_jobs (finished_at) where finished_at is not null;
-- What waits for its device or its turn.
create index backup_jobs_waiting on backup_jobs (due_at, id) where finished_at is null and command_id is null;
-- How many of a configuration run.
create index backup_jobs_handed_over on backup_jobs (config_id) where finished_at is null and command_id is not null;
select protect_table('backup_jobs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_jobs to svc_system;
create trigger backup_jobs_work_added after insert on backup_jobs
  referencing new table as changed for each statement execute function announce_long_work('backup');
create trigger backup_jobs_work after update on backup_jobs
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('backup');

-- A backup job follows its command (docs/decisions/backup-jobs.md): what a device reports is in the job with the same
-- statement, and the end of the command adds the background job that settles the backup job, whatever has ended it.
create function follow_backup_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  followed uuid;
  has_moved boolean := has_advanced(old.status, old.progress, new.status, new.progress);
begin
  update backup_jobs set
    status = case when new.status in ('accepted', 'running') then 'running' else status end,
    started_at = case when new.status in ('accepted', 'running') then coalesce(started_at, now()) else started_at end,
    phase = coalesce(left(new.progress ->> 'phase', 50), phase),
    percent = coalesce((new.progress ->> 'percent')::real, percent),
    done_bytes = coalesce(trunc((new.progress ->> 'done')::numeric)::bigint, done_bytes),
    total_bytes = coalesce(trunc((new.progress ->> 'total')::numeric)::bigint, total_bytes),
    done_files = coalesce(trunc((new.progress ->> 'filesDone')::numeric)::bigint, done_files),
    total_files = coalesce(trunc((new.progress ->> 'filesTotal')::numeric)::bigint, total_files),
    -- These are of this moment: the ones before say nothing about it.
    rate = trunc((new.progress ->> 'rate')::numeric)::bigint,
    eta_seconds = trunc((new.progress ->> 'etaSeconds')::numeric)::bigint,
    current_path = left(new.progress ->> 'path', 4096),
    last_progress_at = now(),
    advanced_at = case when has_moved then now() else advanced_at end,
    stalled_since = case when has_moved then null else stalled_since end,
    updated_at = now()
  where command_id = new.id and finished_at is null
  returning id into followed;
  if new.finished_at is null then
    return null;
  end if;
  if followed is null then
    -- Its job has ended, by a time limit for example, before the device reported.
    select id into followed from backup_jobs where command_id = new.id;
  end if;
  if followed is not null then
    perform enqueue_job(gen_random_uuid(), 'backup.settle',
      new.id || case when new.late_result is null then '' else ' late' end, null,
      jsonb_build_object('jobId', followed, 'commandId', new.id), null, 0, 30 * 24 * 3600, 20);
  end if;
  return null;
end
$$;
revoke execute on function follow_backup_command() from public;
-- `backup.vm-save`: a machine that was made of a snapshot is backed up itself, so that a failback brings it back as it
-- is (SHAPES 14).
create trigger commands_of_backups after update of status, progress, late_result on commands
  for each row when (
    new.type in ('backup.run', 'backup.database', 'backup.image', 'backup.machine', 'backup.vm-save')
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_backup_command();

create table backup_snapshots (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  config_id uuid references backup_configs (id) on delete set null,
  repository_id uuid not null references backup_repositories (id) on delete cascade,
  job_id uuid,
  -- The id that the engine gave it: 64 hexadecimal digits.
  engine_id char(64) not null check (engine_id ~ '^[0-9a-f]{64}$'),
  backup_type text not null default 'file' check (backup_type in ('file', 'system_image', 'database', 'application')),
  -- `SnapshotDetails` of the protocol. Null: a snapshot of files.
  details jsonb,
  -- Of a snapshot in a vault: the one that it is a copy of.
  copy_of uuid references backup_snapshots (id) on delete set null,
  -- When it arrived, by which retention goes. `taken_at` is by the clock of the device.
  received_at timestamptz(3) not null,
  taken_at timestamptz(3),
  size_bytes bigint,
  file_count bigint,
  added_bytes bigint,
  -- What the backup store has received with it, whatever its device says: a device that was taken over can say that
  -- nothing has changed (docs/decisions/backup-care.md). Of packs, as they are stored. Null: elsewhere.
  received_bytes bigint check (received_bytes >= 0),
  changed_files bigint,
  paths jsonb not null default '[]',
  is_partial boolean not null default false,
  -- The sources that were there and had no file. Null: the device has not said.
  empty_sources jsonb,
  -- Files are missing that a backup of these sources should have: it has none at all, or none of a source of which an
  -- earlier snapshot has some.
  lacks_files boolean not null default false,
  -- A machine reads it while it runs, so nothing may remove it. Kept by a trigger.
  in_use boolean not null default false,
  legal_hold boolean not null default false,
  legal_hold_reason varchar(500),
  immutable_until timestamptz(3),
  -- When retention, a person, or a person with the engine removed it.
  removed_at timestamptz(3),
  removed_because varchar(200),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  unique (repository_id, engine_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index backup_snapshots_of_device on backup_snapshots (device_id, received_at desc, id desc);
create index backup_snapshots_of_org on backup_snapshots (org_id, received_at desc, id desc);
create index backup_snapshots_of_config on backup_snapshots (config_id) where removed_at is null;
create index backup_snapshots_of_job on backup_snapshots (job_id);
create index backup_snapshots_copies on backup_snapshots (copy_of) where copy_of is not null;
select protect_table('backup_snapshots', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_snapshots to svc_system;

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function follow_backup_command() owner to svc_system;
revoke create on schema public from svc_system;
