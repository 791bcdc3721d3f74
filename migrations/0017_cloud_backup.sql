-- Cloud-to-cloud backup of Microsoft 365 (SPEC 4.13, SHAPES 13; docs/decisions/cloud-backup.md).

create table c2c_connections (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  provider text not null check (provider = 'microsoft_365'),
  auth_method text not null check (auth_method in ('manual', 'platform_app')),
  display_name varchar(200) not null,
  -- The directory at the provider.
  tenant_id uuid not null,
  -- Of the organization's own app; null with the app of this server.
  client_id uuid,
  sealed_secret text,
  last_error_code varchar(100),
  last_error_message varchar(1000),
  last_sync_at timestamptz(3),
  -- The provider has asked every server to wait until then.
  throttled_until timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  check ((auth_method = 'manual') = (client_id is not null and sealed_secret is not null))
);
create unique index c2c_connections_name on c2c_connections (org_id, lower(display_name));
select protect_table('c2c_connections', 'org_id = any((select app_org_ids())::uuid[])');

-- An administrator who is about to give the app of this server access to a directory.
create table c2c_consents (
  id uuid primary key,
  org_id uuid not null references organizations (id) on delete cascade,
  session_id uuid not null references sessions (id) on delete cascade,
  display_name varchar(200) not null,
  -- SHA-256, hexadecimal.
  state_hash char(64) not null unique,
  nonce varchar(64) not null,
  code_verifier varchar(128) not null,
  -- What the browser has claimed after the consent. It counts for nothing until the sign-in has proved it.
  claimed_tenant_id uuid,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now()
);
create index c2c_consents_of_org on c2c_consents (org_id, session_id);
create index c2c_consents_by_end on c2c_consents (expires_at);
select protect_table('c2c_consents', 'org_id = any((select app_org_ids())::uuid[])', null, 'insert');
grant select, update, delete on c2c_consents to svc_system;

create table c2c_configs (
  id uuid primary key,
  org_id uuid not null,
  connection_id uuid not null,
  name varchar(200) not null,
  encryption_key_id uuid not null,
  backup_scope text[] not null,
  all_users boolean not null,
  target_users text[] not null,
  schedule jsonb,
  retention jsonb not null default '{}',
  enabled boolean not null default true,
  next_run_at timestamptz(3),
  -- Since when the schedule is what it is; null: since the configuration was made.
  scheduled_since timestamptz(3),
  -- Runs are removed after some months, and what the last good one has stored stays.
  last_success_at timestamptz(3),
  -- It is hidden, and a job removes its items.
  removing_since timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, connection_id) references c2c_connections (org_id, id),
  foreign key (org_id, encryption_key_id) references backup_encryption_keys (org_id, id)
);
create unique index c2c_configs_name on c2c_configs (org_id, lower(name)) where removing_since is null;
create index c2c_configs_of_connection on c2c_configs (org_id, connection_id);
create index c2c_configs_of_key on c2c_configs (org_id, encryption_key_id);
create index c2c_configs_due on c2c_configs (next_run_at) where next_run_at is not null;
select protect_table('c2c_configs', 'org_id = any((select app_org_ids())::uuid[])');

-- What belongs to a run of a configuration or to a restore alone. The rest of it is work.
create table c2c_job_facts (
  id uuid primary key,
  org_id uuid not null,
  config_id uuid not null,
  type text not null check (type in ('backup', 'restore')),
  trigger text not null check (trigger in ('manual', 'schedule')),
  -- Of a restore: { connectionId, user, folder }.
  target jsonb,
  phase varchar(50),
  items_processed bigint not null default 0,
  items_new bigint not null default 0,
  items_updated bigint not null default 0,
  items_deleted bigint not null default 0,
  items_failed bigint not null default 0,
  bytes_transferred bigint not null default 0,
  parts_total integer,
  parts_done integer not null default 0,
  unique (org_id, id),
  foreign key (org_id, id) references work (org_id, id) on delete cascade,
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
) with (fillfactor = 70);
create index c2c_job_facts_of_config on c2c_job_facts (org_id, config_id, id desc);
select protect_table('c2c_job_facts', 'org_id = any((select app_org_ids())::uuid[])');
-- It counts with each page that is read.
create trigger c2c_job_facts_work after update of items_processed, parts_done, phase on c2c_job_facts
  for each row execute function announce_part_of_long_work('cloud_backup', 'id');

-- For reading, by the rights of the reader.
create view c2c_jobs with (security_invoker = true) as
select w.id, w.org_id, f.config_id, f.type, f.trigger, w.status, f.target, f.phase,
  f.items_processed, f.items_new, f.items_updated, f.items_deleted, f.items_failed, f.bytes_transferred,
  f.parts_total, f.parts_done, w.error_code, w.error_message, w.cancel_requested_at,
  w.created_by, w.created_at, w.updated_at, w.started_at, w.finished_at
from c2c_job_facts f join work w on w.id = f.id;
grant select on c2c_jobs to svc_app, svc_system;

-- What became of each kind of data of each user in a run.
create table c2c_outcomes (
  job_id uuid not null,
  org_id uuid not null,
  user_email varchar(320) not null,
  kind text not null check (kind in ('mail', 'calendar', 'contacts', 'onedrive')),
  status text not null default 'pending' check (status in ('pending', 'running', 'completed', 'partial', 'skipped', 'failed')),
  items_new bigint not null default 0,
  items_updated bigint not null default 0,
  items_deleted bigint not null default 0,
  items_failed bigint not null default 0,
  bytes_transferred bigint not null default 0,
  error_code varchar(100),
  error_message varchar(1000),
  primary key (job_id, user_email, kind),
  foreign key (org_id, job_id) references c2c_job_facts (org_id, id) on delete cascade
);
create index c2c_outcomes_of_org on c2c_outcomes (org_id, job_id);
select protect_table('c2c_outcomes', 'org_id = any((select app_org_ids())::uuid[])');

-- How well configurations protect what they are about, for the overview of backups and for alerts
-- (docs/decisions/backup-care.md).
create table c2c_readiness (
  config_id uuid primary key,
  org_id uuid not null,
  score smallint not null check (score between 0 and 100),
  -- The age of the last good run; null: there was none.
  rpo_minutes integer,
  risks jsonb not null,
  is_failing boolean not null,
  is_late boolean not null,
  is_unprotected boolean not null,
  calculated_at timestamptz(3) not null,
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
);
create index c2c_readiness_of_org on c2c_readiness (org_id, score, config_id);
select protect_table('c2c_readiness', 'org_id = any((select app_org_ids())::uuid[])');

-- How far each folder of each user has been read.
create table c2c_cursors (
  id uuid primary key,
  org_id uuid not null,
  config_id uuid not null,
  user_id varchar(100) not null,
  kind text not null check (kind in ('mail', 'calendar', 'contacts', 'onedrive')),
  container_id varchar(1024) not null,
  -- Counts readings. A whole one begins without a delta link, and what it does not meet is gone.
  round integer not null default 0,
  is_whole boolean not null default true,
  -- Where a reading goes on that was interrupted.
  next_link text,
  delta_link text,
  -- The last run in which the folder was read to its end.
  done_in uuid,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (config_id, user_id, kind, container_id),
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
);
create index c2c_cursors_of_org on c2c_cursors (org_id, config_id);
select protect_table('c2c_cursors', 'org_id = any((select app_org_ids())::uuid[])');

-- What is searched in an item, in NFC (docs/decisions/text-from-others.md) and in lower case. Only immutable functions,
-- so that Postgres writes this in place instead of calling it for each row, and short enough that an entry of the index
-- holds it in any alphabet: 331 characters of four bytes each.
create function c2c_search_text(name text, metadata jsonb) returns text
language sql immutable parallel safe as $$
  select left(lower(normalize(name, nfc)), 240) || chr(31) || left(lower(normalize(
    coalesce(metadata ->> 'fromName', metadata ->> 'organizerName', '') || ' '
    || coalesce(metadata ->> 'from', metadata ->> 'organizer', metadata ->> 'address', ''), nfc)), 90)
$$;

create table c2c_items (
  id uuid primary key,
  org_id uuid not null,
  config_id uuid not null,
  user_id varchar(100) not null,
  user_email varchar(320) not null,
  kind text not null check (kind in ('mail', 'calendar', 'contacts', 'onedrive')),
  container_id varchar(1024) not null,
  external_id varchar(1024) not null,
  name varchar(500) not null,
  parent_path varchar(2000) not null,
  -- What else is shown, and what a restore needs.
  metadata jsonb not null default '{}',
  -- Null: not filled yet.
  search_text text,
  etag varchar(500),
  size_bytes bigint,
  item_date timestamptz(3),
  -- The newest content.
  version_id uuid,
  -- The content of this state is still to be fetched: the next run does it.
  is_due boolean not null default false,
  error_code varchar(100),
  seen_round integer not null,
  deleted_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  unique (config_id, user_id, kind, external_id),
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
)
-- What vacuum has not seen is looked up in the table one by one, so it comes long before a fifth of the items is new.
with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05);
create index c2c_items_of_user on c2c_items (org_id, user_email, id);
create index c2c_items_of_container on c2c_items (config_id, user_id, kind, container_id) where deleted_at is null;
create index c2c_items_due on c2c_items (config_id, user_id, kind) where is_due;
create index c2c_items_deleted on c2c_items (config_id, deleted_at) where deleted_at is not null;
-- Text search in cloud items (docs/decisions/cloud-backup.md). The index includes what is searched: row level security
-- has the tenant of each row checked before a `like`, so no index over words or trigrams can serve it.
create index c2c_items_search on c2c_items (org_id, config_id, id)
  include (user_email, kind, deleted_at, search_text);
create index c2c_items_not_searchable on c2c_items (id) where search_text is null;
select protect_table('c2c_items', 'org_id = any((select app_org_ids())::uuid[])');

-- A trigger, so that no writer of the table has to know the column.
create function set_c2c_search_text() returns trigger language plpgsql as $$
begin
  new.search_text := c2c_search_text(new.name, new.metadata);
  return new;
end
$$;
create trigger c2c_items_search_text before insert or update of name, metadata on c2c_items
  for each row execute function set_c2c_search_text();

-- Folders of drives, whose changes come without the path.
create table c2c_folders (
  org_id uuid not null,
  config_id uuid not null,
  user_id varchar(100) not null,
  external_id varchar(1024) not null,
  parent_id varchar(1024),
  name varchar(500) not null,
  primary key (config_id, user_id, external_id),
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
);
create index c2c_folders_of_org on c2c_folders (org_id, config_id);
select protect_table('c2c_folders', 'org_id = any((select app_org_ids())::uuid[])');

-- What the items of an organization take in the backup store, and under which name.
create table c2c_stores (
  org_id uuid primary key references organizations (id),
  repository_id uuid not null unique,
  stored_bytes bigint not null default 0
);
select protect_table('c2c_stores', 'org_id = any((select app_org_ids())::uuid[])');

-- Objects of the backup store, each with the encrypted parts of many items.
create table c2c_packs (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  -- SHA-256 of the object, which is its name in the store.
  name char(64) not null,
  encryption_key_id uuid not null,
  key_version integer not null,
  bytes bigint not null,
  -- Nothing refers to it any more: its object is removed a day later.
  obsolete_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  unique (org_id, id),
  unique (org_id, name),
  foreign key (org_id, encryption_key_id) references backup_encryption_keys (org_id, id)
);
create index c2c_packs_obsolete on c2c_packs (obsolete_at) where obsolete_at is not null;
create index c2c_packs_of_key on c2c_packs (org_id, encryption_key_id);
select protect_table('c2c_packs', 'org_id = any((select app_org_ids())::uuid[])');

create table c2c_blobs (
  id uuid primary key,
  org_id uuid not null,
  encryption_key_id uuid not null,
  -- Of the content in the clear.
  sha256 bytea not null,
  bytes integer not null,
  pack_id uuid not null,
  pack_offset bigint not null,
  -- When it was written, or found to be there already.
  used_at timestamptz(3) not null default now(),
  unique (org_id, id),
  unique (org_id, encryption_key_id, sha256),
  foreign key (org_id, pack_id) references c2c_packs (org_id, id)
);
create index c2c_blobs_of_pack on c2c_blobs (org_id, pack_id);
create index c2c_blobs_by_use on c2c_blobs (org_id, used_at);
select protect_table('c2c_blobs', 'org_id = any((select app_org_ids())::uuid[])');

create table c2c_versions (
  id uuid primary key,
  org_id uuid not null,
  item_id uuid not null,
  sha256 bytea not null,
  bytes bigint not null,
  captured_at timestamptz(3) not null default now(),
  superseded_at timestamptz(3),
  unique (org_id, id),
  foreign key (org_id, item_id) references c2c_items (org_id, id) on delete cascade
);
create index c2c_versions_of_item on c2c_versions (org_id, item_id, captured_at desc);
select protect_table('c2c_versions', 'org_id = any((select app_org_ids())::uuid[])');

-- The key to the blob keeps what is still referred to, even from a clean-up that is wrong.
create table c2c_version_blobs (
  version_id uuid not null,
  org_id uuid not null,
  position integer not null,
  blob_id uuid not null,
  primary key (version_id, position),
  foreign key (org_id, version_id) references c2c_versions (org_id, id) on delete cascade,
  foreign key (org_id, blob_id) references c2c_blobs (org_id, id)
);
create index c2c_version_blobs_of_blob on c2c_version_blobs (org_id, blob_id);
select protect_table('c2c_version_blobs', 'org_id = any((select app_org_ids())::uuid[])');

-- What a restore is to bring back, and what became of it.
create table c2c_restored_items (
  job_id uuid not null,
  org_id uuid not null,
  item_id uuid not null,
  version_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'restored', 'present', 'failed')),
  external_id varchar(1024),
  error_code varchar(100),
  error_message varchar(1000),
  primary key (job_id, item_id),
  foreign key (org_id, job_id) references c2c_job_facts (org_id, id) on delete cascade,
  foreign key (org_id, item_id) references c2c_items (org_id, id) on delete cascade
);
create index c2c_restored_items_of_item on c2c_restored_items (org_id, item_id);
select protect_table('c2c_restored_items', 'org_id = any((select app_org_ids())::uuid[])');
