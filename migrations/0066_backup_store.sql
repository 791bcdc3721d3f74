-- The backup store (docs/decisions/backup-store.md): repositories of devices, the objects in them, and the credentials
-- that open one repository for one job.

create table backup_repositories (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  -- The backup configuration that it belongs to. Its table comes with a later migration.
  config_id uuid,
  -- What all objects take, those in the trash included. Each counts as at least 4 KiB, as it does on a disk.
  stored_bytes bigint not null default 0,
  -- Until then the server prunes, and no device can write.
  pruning_until timestamptz(3),
  -- While this is set nothing is removed from the trash.
  trash_held_at timestamptz(3),
  -- Objects that were moved to the trash before this time may be gone: earlier states cannot be served any more.
  purged_through timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 50);
create index backup_repositories_of_device on backup_repositories (org_id, device_id, config_id);
select protect_table('backup_repositories', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');

-- One repository, one job, some hours. The secret is stored as its SHA-256.
create table backup_store_credentials (
  id uuid primary key,
  org_id uuid not null,
  repository_id uuid not null,
  secret_hash char(64) not null,
  role text not null check (role in ('device', 'server', 'reader', 'as-of')),
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
  -- Who wrote it. The credential itself is removed some time after its end; these stay.
  credential_id uuid,
  job_id uuid,
  trashed_at timestamptz(3),
  -- Since when its file is missing.
  lost_at timestamptz(3),
  primary key (repository_id, type, name),
  check (case type when 'config' then name = 'config' else name ~ '^[0-9a-f]{64}$' end)
);
create index backup_objects_in_trash on backup_objects (trashed_at, repository_id) where trashed_at is not null;
create index backup_objects_lost on backup_objects (lost_at) where lost_at is not null;
create index backup_objects_locks on backup_objects (credential_id) where type = 'locks';
select protect_table('backup_objects', null);

-- All that the store asks before it answers a request, in one statement.
create function backup_store_request(wanted_credential uuid, wanted_type text, wanted_name text) returns table (
  secret_hash text, role text, repository_id uuid, org_id uuid, partner_id uuid, job_id uuid, as_of timestamptz,
  snapshot_name text, expires_at timestamptz, is_live boolean, is_pruning boolean, size bigint,
  object_credential_id uuid, object_role text, arrived_at timestamptz, trashed_at timestamptz, lost_at timestamptz
) language sql stable security definer set search_path = pg_catalog, public as $$
  select c.secret_hash, c.role, c.repository_id, c.org_id, g.partner_id, c.job_id, c.as_of, c.snapshot_name,
    c.expires_at, c.ended_at is null and c.expires_at > now(), coalesce(r.pruning_until > now(), false),
    o.size, o.credential_id, w.role, o.arrived_at, o.trashed_at, o.lost_at
  from backup_store_credentials c
  join backup_repositories r on r.id = c.repository_id
  join organizations g on g.id = c.org_id
  left join backup_objects o on o.repository_id = c.repository_id and o.type = wanted_type and o.name = wanted_name
  left join backup_store_credentials w on w.id = o.credential_id
  where c.id = wanted_credential
$$;
revoke execute on function backup_store_request(uuid, text, text) from public;
grant execute on function backup_store_request(uuid, text, text) to svc_app, svc_system;
grant create on schema public to svc_system;
alter function backup_store_request(uuid, text, text) owner to svc_system;
revoke create on schema public from svc_system;

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0071 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
