-- Backups (SPEC 4.13, SHAPES 11): the keys and configurations, the backup store with the repositories of devices
-- (docs/decisions/backup-store.md), and the notices of work that dashboards show while it happens.

create table backup_encryption_keys (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  -- `rotating`: not every repository of the key has its newest version yet.
  status text not null default 'active' check (status in ('active', 'rotating')),
  version integer not null default 1 check (version > 0),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  rotated_at timestamptz(3),
  unique (org_id, id)
);
create unique index backup_encryption_keys_name on backup_encryption_keys (org_id, lower(name));
select protect_table('backup_encryption_keys', 'org_id = any((select app_org_ids())::uuid[])');
create trigger backup_encryption_keys_work after update of status, version on backup_encryption_keys
  for each row when ((old.status, old.version) is distinct from (new.status, new.version))
  execute function announce_part_of_long_work('key_rotation', 'id');

-- Earlier versions stay: a repository as of an earlier time, and a vault, open with the key of that time.
create table backup_encryption_key_versions (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  key_id uuid not null,
  version integer not null check (version > 0),
  sealed_material text not null,
  -- SHA-256 of the material, hexadecimal.
  fingerprint char(64) not null,
  created_at timestamptz(3) not null default now(),
  unique (key_id, version),
  foreign key (org_id, key_id) references backup_encryption_keys (org_id, id) on delete cascade
);
create index backup_encryption_key_versions_by_org on backup_encryption_key_versions (org_id);
select protect_table('backup_encryption_key_versions', 'org_id = any((select app_org_ids())::uuid[])');

create table backup_configs (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  provider text not null check (provider in ('server', 's3', 'local')),
  -- Without secrets; `sealed_secret` holds the one that the provider has.
  details jsonb not null,
  sealed_secret text,
  encryption_key_id uuid not null,
  enabled boolean not null default true,
  is_default boolean not null default false,
  sources jsonb not null,
  schedule jsonb,
  retention jsonb not null,
  targets jsonb not null,
  limits jsonb not null,
  -- When a configuration became what it is now: slots before that are not made up for.
  scheduled_since timestamptz(3) not null default now(),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, encryption_key_id) references backup_encryption_keys (org_id, id)
);
create unique index backup_configs_name on backup_configs (org_id, lower(name));
create unique index backup_configs_default on backup_configs (org_id) where is_default;
create index backup_configs_by_key on backup_configs (encryption_key_id);
-- What the scheduler reads.
create index backup_configs_scheduled on backup_configs (id) where enabled and schedule is not null;
select protect_table('backup_configs', 'org_id = any((select app_org_ids())::uuid[])');

-- How far the scheduler of backups is, by configuration and time zone (docs/decisions/backup-jobs.md).
create table backup_schedule_slots (
  config_id uuid not null,
  org_id uuid not null,
  time_zone varchar(64) not null,
  -- The `scheduled_since` of the configuration for which this was computed.
  since timestamptz(3) not null,
  -- The slot that has come, while the time of some of its devices has not; else null.
  slot timestamptz(3),
  -- Up to this many seconds after the slot, jobs have been made.
  made_seconds integer not null default -1,
  next_at timestamptz(3) not null,
  primary key (config_id, time_zone),
  foreign key (org_id, config_id) references backup_configs (org_id, id) on delete cascade
);
create index backup_schedule_slots_of_org on backup_schedule_slots (org_id, config_id);
select protect_table('backup_schedule_slots', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');

create table backup_repositories (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  -- The backup configuration that it belongs to.
  config_id uuid,
  provider text not null default 'server' check (provider in ('server', 's3', 'local')),
  -- The repository of a vault is one like others, with snapshots of its own: they can be browsed, restored and held.
  is_vault boolean not null default false,
  -- The key that opens it, and the version that it opens with now. Earlier data of it stays readable with either.
  encryption_key_id uuid,
  key_version integer,
  -- It was opened to a new version of its key; the earlier ones still open it too.
  has_old_keys boolean not null default false,
  -- The id of that key in the repository, which the engine takes as a hint.
  engine_key_id varchar(64),
  -- Since when the engine can open it.
  initialized_at timestamptz(3),
  -- What all objects take, those in the trash included. Each counts as at least 4 KiB, as it does on a disk.
  stored_bytes bigint not null default 0,
  -- What is free where the backups are stored outside of the backup store, as the device has found it after its last
  -- backup; 0 where that did not fit. Null: not known (docs/decisions/backup-care.md).
  destination_free_bytes bigint check (destination_free_bytes >= 0),
  destination_total_bytes bigint check (destination_total_bytes >= 0),
  -- Until then the server prunes, and no device can write.
  pruning_until timestamptz(3),
  -- Snapshots were removed, and their data is still there.
  prune_due_since timestamptz(3),
  pruned_at timestamptz(3),
  -- While this is set nothing is removed from the trash.
  trash_held_at timestamptz(3),
  -- Objects that were moved to the trash before this time may be gone: earlier states cannot be served any more.
  purged_through timestamptz(3),
  -- The data is read in parts, one with each integrity verification. These are those of the present round.
  read_parts smallint not null default 0,
  read_parts_done smallint not null default 0,
  -- When the last round began that found all data sound.
  read_whole_since timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 50);
create index backup_repositories_of_device on backup_repositories (org_id, device_id, config_id);
-- A device has one repository for each of its configurations. Those of configurations that are gone stay readable.
create unique index backup_repositories_one on backup_repositories (device_id, config_id) where config_id is not null;
create index backup_repositories_to_prune on backup_repositories (id) where prune_due_since is not null;
create index backup_repositories_of_key on backup_repositories (encryption_key_id, key_version);
select protect_table('backup_repositories', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
create trigger backup_repositories_work after update of key_version, has_old_keys on backup_repositories
  for each row when ((old.key_version, old.has_old_keys) is distinct from (new.key_version, new.has_old_keys))
  execute function announce_part_of_long_work('key_rotation', 'encryption_key_id');

-- One repository, one job, some hours. The secret is stored as its SHA-256.
create table backup_store_credentials (
  id uuid primary key,
  org_id uuid not null,
  repository_id uuid not null,
  secret_hash char(64) not null,
  -- `vault`: a device that copies into a vault.
  role text not null check (role in ('device', 'vault', 'server', 'reader', 'as-of')),
  job_id uuid,
  as_of timestamptz(3),
  -- The one snapshot that a device may create with it.
  snapshot_name char(64),
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  foreign key (org_id, repository_id) references backup_repositories (org_id, id)
    on delete cascade on update cascade,
  check ((role = 'as-of') = (as_of is not null))
);
create index backup_store_credentials_of_repository on backup_store_credentials (org_id, repository_id, expires_at);
create index backup_store_credentials_by_end on backup_store_credentials (expires_at);
create index backup_store_credentials_of_job on backup_store_credentials (job_id)
  where ended_at is null and job_id is not null;
select protect_table('backup_store_credentials', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_store_credentials to svc_system;

-- What the store holds. No tenant sees the rows, and they name no organization, so that a device that moves to another
-- one takes its repository along without a change to each of them.
create table backup_objects (
  repository_id uuid not null references backup_repositories (id) on delete cascade,
  -- The folder of restic's repository format.
  type text collate "C" not null check (type in ('config', 'keys', 'data', 'index', 'snapshots', 'locks')),
  name text collate "C" not null,
  size bigint not null check (size >= 0),
  -- When the store received it, by the clock of the database. A device has no influence on it.
  arrived_at timestamptz(3) not null default now(),
  -- What wrote it. The credential itself is removed some time after its end; these stay.
  credential_id uuid,
  job_id uuid,
  trashed_at timestamptz(3),
  -- Since when its file is missing.
  lost_at timestamptz(3),
  -- Of a snapshot: when it was last tried, and could not be read. It is tried again some time later.
  unreadable_at timestamptz(3),
  primary key (repository_id, type, name),
  check (case type when 'config' then name = 'config' else name ~ '^[0-9a-f]{64}$' end)
);
create index backup_objects_in_trash on backup_objects (trashed_at, repository_id) where trashed_at is not null;
create index backup_objects_lost on backup_objects (lost_at) where lost_at is not null;
create index backup_objects_locks on backup_objects (credential_id) where type = 'locks';
select protect_table('backup_objects', null);
