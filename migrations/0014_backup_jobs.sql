-- Backup jobs and the snapshots that they make (SPEC 4.13, SHAPES 11, 12).

-- What belongs to a backup job alone (docs/decisions/backup-jobs.md). The rest of it is work.
create table backup_job_facts (
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
  -- Of its newest command: what the store received with it is the job's.
  credential_id uuid,
  added_bytes bigint,
  -- As the device has reported them at the end.
  processed_bytes bigint,
  processed_files bigint,
  -- How many paths could not be read, and the first of them: [{ path, message }].
  unreadable_count integer not null default 0,
  unreadable jsonb not null default '[]',
  -- `{ count, paths: [{ path, message }] }`: the virtual file systems below its sources. Null: the device has not said.
  left_out jsonb,
  -- Whether files were read from shadow copies, as the device has reported it: `{ used, problems: [{ volume, message
  -- }], isCut? }`. Null: not of files on Windows, or the device has not said.
  shadow_copies jsonb,
  unique (org_id, id),
  constraint backup_job_types check (
    wanted_type in ('full', 'differential', 'log') and backup_type in ('full', 'differential', 'log')),
  foreign key (org_id, id) references work (org_id, id) on delete cascade on update cascade
) with (fillfactor = 80);
-- Once for each device, configuration and slot, on however many servers.
create unique index backup_job_facts_slot on backup_job_facts (device_id, config_id, slot) where slot is not null;
create index backup_job_facts_of_device on backup_job_facts (device_id, id desc);
create index backup_job_facts_of_config on backup_job_facts (config_id, id desc);
create index backup_job_facts_of_repository on backup_job_facts (repository_id);
select protect_table('backup_job_facts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_job_facts to svc_system;

-- For reading, by the rights of the reader. What a device says of the moment ends with its work. Ids grow with time: lists
-- are ordered by them.
create view backup_jobs with (security_invoker = true) as
select f.id, f.org_id, f.device_id, f.config_id, f.repository_id, f.type, f.sources, f.wanted_type, f.backup_type,
  f.type_reason, f.slot, f.due_at, w.status, w.command_id, f.credential_id, w.deadline_at as expires_at,
  w.cancel_requested_at, left(w.progress ->> 'phase', 50) as phase,
  case when f.processed_bytes is null then (w.progress ->> 'percent')::real else 100 end as percent,
  coalesce(f.processed_bytes, trunc((w.progress ->> 'total')::numeric)::bigint) as total_bytes,
  coalesce(f.processed_bytes, trunc((w.progress ->> 'done')::numeric)::bigint) as done_bytes,
  coalesce(f.processed_files, trunc((w.progress ->> 'filesTotal')::numeric)::bigint) as total_files,
  coalesce(f.processed_files, trunc((w.progress ->> 'filesDone')::numeric)::bigint) as done_files,
  case when w.stage = 'device' then left(w.progress ->> 'path', 4096) end as current_path,
  case when w.stage = 'device' then trunc((w.progress ->> 'rate')::numeric)::bigint end as rate,
  case when w.stage = 'device' then trunc((w.progress ->> 'etaSeconds')::numeric)::bigint end as eta_seconds,
  -- Nothing but its device changes work that its device has.
  case when w.stage = 'device' and w.status = 'running' then w.updated_at else w.advanced_at end as last_progress_at,
  w.advanced_at, w.stalled_since, f.added_bytes, w.error_code, w.error_message, f.unreadable_count, f.unreadable,
  f.left_out, f.shadow_copies, w.created_by, w.created_at, w.updated_at, w.started_at, w.finished_at
from backup_job_facts f join work w on w.id = f.id and w.kind = 'backup';
grant select on backup_jobs to svc_app, svc_system;

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
