-- Jobs of backups and the snapshots that they made (SPEC 4.13, SHAPES 11).

alter table backup_repositories
  add column provider text not null default 'server' check (provider in ('server', 's3', 'local')),
  -- The key that opens it, and the version that it opens with now. Earlier data of it stays readable with either.
  add column encryption_key_id uuid,
  add column key_version integer,
  -- The id of that key in the repository, which the engine takes as a hint.
  add column engine_key_id varchar(64),
  -- Since when the engine can open it.
  add column initialized_at timestamptz(3);

-- A device has one repository for each of its configurations. Those of configurations that are gone stay readable.
create unique index backup_repositories_one on backup_repositories (device_id, config_id) where config_id is not null;

create table backup_jobs (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  -- Null where the configuration was deleted, or belongs to the organization that the device has left.
  config_id uuid references backup_configs (id) on delete set null,
  repository_id uuid references backup_repositories (id) on delete set null,
  type text not null check (type in ('scheduled', 'manual')),
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
  last_progress_at timestamptz(3),
  added_bytes bigint,
  error_code varchar(64),
  error_message varchar(2000),
  -- How many paths could not be read, and the first of them: [{ path, message }].
  unreadable_count integer not null default 0,
  unreadable jsonb not null default '[]',
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_jobs_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
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
select protect_table('backup_jobs', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_jobs to svc_system;

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
  -- When it arrived, by which retention goes. `taken_at` is by the clock of the device.
  received_at timestamptz(3) not null,
  taken_at timestamptz(3),
  size_bytes bigint,
  file_count bigint,
  added_bytes bigint,
  changed_files bigint,
  paths jsonb not null default '[]',
  is_partial boolean not null default false,
  legal_hold boolean not null default false,
  legal_hold_reason varchar(500),
  immutable_until timestamptz(3),
  -- When retention, a person, or somebody with the engine removed it.
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
select protect_table('backup_snapshots', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_snapshots to svc_system;

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0074 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
