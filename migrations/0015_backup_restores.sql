-- Restores in all their forms (SPEC 4.13, SHAPES 11, 12): of files, databases and disks, to virtual machines, and of
-- whole machines from bare metal.

-- Restores of backup snapshots to devices (SPEC 4.13, SHAPES 11; docs/decisions/backup-restores.md): what belongs to them
-- alone. The rest of them is work.
create table backup_restore_facts (
  id uuid primary key,
  org_id uuid not null,
  -- Null where the snapshot is gone for good.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  -- The state of the repository that is restored from; null: as it is.
  as_of timestamptz(3),
  -- Everything where it is null.
  selected_paths jsonb,
  -- The entry of the snapshot that comes to `target_path` itself. Null: everything comes below its whole path.
  from_path varchar(4096),
  -- Without one, a folder of the agent, which its result names.
  target_path varchar(4096),
  overwrite text not null check (overwrite in ('never', 'ifNewer', 'always')),
  dry_run boolean not null default false,
  -- Of the restore of a database: what was asked for, and what was reached. Null: a restore of something else; the same
  -- holds for the next three.
  database jsonb,
  database_result jsonb,
  -- Of a machine: { hypervisor, name, vmName, generateNewId }.
  machine jsonb,
  -- Of disks out of an image: `{ disk?, grow }` (docs/decisions/machine-images.md).
  image jsonb,
  -- Of files out of an image: `{ machine?, disk, partition? }`, the volume that the files come out of.
  volume jsonb,
  attempts integer not null default 1,
  restored_bytes bigint,
  restored_files bigint,
  skipped_files bigint,
  failed_count bigint not null default 0,
  -- The first of them: [{ path, message }].
  failed jsonb not null default '[]',
  unique (org_id, id),
  foreign key (org_id, id) references work (org_id, id) on delete cascade on update cascade
);
create index backup_restore_facts_of_snapshot on backup_restore_facts (snapshot_id);
select protect_table('backup_restore_facts', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
grant delete on backup_restore_facts to svc_system;

-- For reading, by the rights of the reader.
create view backup_restores with (security_invoker = true) as
select w.id, w.org_id, w.device_id, f.snapshot_id, f.as_of, f.selected_paths, f.from_path, f.target_path, f.overwrite,
  f.dry_run, f.database, f.database_result, f.machine, f.image, f.volume, w.status, w.command_id, f.attempts,
  w.deadline_at as expires_at, w.progress, w.advanced_at, w.stalled_since, f.restored_bytes, f.restored_files,
  f.skipped_files, f.failed_count, f.failed, w.error_code, w.error_message, w.created_by, w.created_at, w.updated_at,
  w.started_at, w.finished_at
from backup_restore_facts f join work w on w.id = f.id;
grant select on backup_restores to svc_app, svc_system;

-- Database servers as devices list them (docs/decisions/backup-databases.md).
create table backup_database_instances (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  engine text not null check (engine in ('postgresql', 'mariadb', 'mssql')),
  instance varchar(255) not null,
  -- `DatabaseInstance` of the protocol, without these two.
  facts jsonb not null,
  last_discovered_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (device_id, engine, instance),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index backup_database_instances_of_org on backup_database_instances (org_id, device_id);
select protect_table('backup_database_instances', 'org_id = any((select app_org_ids())::uuid[])');

-- Guests of hypervisors as devices list them (docs/decisions/virtual-machines.md).
create table backup_machines (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  hypervisor text not null check (hypervisor in ('hyperv', 'kvm')),
  -- As the hypervisor calls it.
  machine_id varchar(100) not null,
  name varchar(256) not null,
  -- `Machine` of the protocol, without its id and name.
  facts jsonb not null,
  last_discovered_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (device_id, hypervisor, machine_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index backup_machines_of_org on backup_machines (org_id, hypervisor, device_id);
select protect_table('backup_machines', 'org_id = any((select app_org_ids())::uuid[])');

-- Snapshots of machines that become virtual machines on a device (docs/decisions/virtual-machines.md).
create table backup_vm_restores (
  id uuid primary key,
  org_id uuid not null,
  -- The host of the machine.
  device_id uuid not null,
  -- Null where the snapshot is gone for good.
  snapshot_id uuid references backup_snapshots (id) on delete set null,
  kind text not null check (kind in ('as_vm', 'instant_boot')),
  hypervisor text not null check (hypervisor in ('kvm', 'hyperv')),
  vm_name varchar(200) not null,
  -- `VmSpec` of the feature.
  spec jsonb not null,
  -- `active`: the machine of an instant boot is there, and still needs its snapshot.
  status text not null default 'pending'
    check (status in ('pending', 'working', 'active', 'completed', 'discarded', 'failed', 'cancelled')),
  -- What the newest command does, and whether it has ended.
  operation text not null check (operation in ('restore', 'boot', 'migrate', 'discard')),
  is_operating boolean not null default true,
  command_id uuid not null,
  credential_id uuid,
  -- What the machine does, as its host reported last.
  vm_state text check (vm_state in ('running', 'paused', 'faulty', 'stopped', 'unknown')),
  state_at timestamptz(3),
  -- A machine may lie on the snapshot.
  holds_snapshot boolean not null,
  expires_at timestamptz(3) not null,
  progress jsonb,
  -- What the host reported of the machine.
  result jsonb,
  error_code varchar(64),
  error_message varchar(2000),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_vm_restores_end
    check ((finished_at is not null) = (status in ('completed', 'discarded', 'failed', 'cancelled'))),
  constraint backup_vm_restores_hold check (finished_at is null or not holds_snapshot),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
create unique index backup_vm_restores_of_command on backup_vm_restores (command_id);
create index backup_vm_restores_of_device on backup_vm_restores (device_id, created_at desc, id desc);
create index backup_vm_restores_of_org on backup_vm_restores (org_id, created_at desc, id desc);
create index backup_vm_restores_of_snapshot on backup_vm_restores (snapshot_id) where holds_snapshot;
create index backup_vm_restores_open on backup_vm_restores (device_id) where finished_at is null;
create index backup_vm_restores_by_age on backup_vm_restores (org_id, finished_at) where finished_at is not null;
select protect_table('backup_vm_restores', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_vm_restores to svc_system;

-- A snapshot is in use as long as a machine may lie on it, however the row of that changes.
create function follow_use_of_snapshot() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update backup_snapshots s set in_use = exists (
    select from backup_vm_restores v where v.snapshot_id = s.id and v.holds_snapshot)
  where s.id in (new.snapshot_id, old.snapshot_id);
  return null;
end
$$;
revoke execute on function follow_use_of_snapshot() from public;
create trigger backup_vm_restores_use after insert or delete or update of holds_snapshot, snapshot_id on backup_vm_restores
  for each row execute function follow_use_of_snapshot();
create trigger backup_vm_restores_work_added after insert on backup_vm_restores
  referencing new table as changed for each statement execute function announce_long_work('vm_restore');
create trigger backup_vm_restores_work after update on backup_vm_restores
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('vm_restore');

-- A virtual machine follows its commands in the same transaction, whatever changes those, so neither a server that dies
-- nor a device that reports late leaves the two apart.
create function follow_vm_restore_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  output jsonb;
  -- Whether the device may have begun, and may still have a machine that it has not reported.
  is_uncertain boolean := new.status = 'timed_out' or coalesce(new.error ->> 'code' = 'INTERRUPTED', false);
begin
  if new.finished_at is null then
    update backup_vm_restores set
      status = case when status = 'pending' and new.status in ('accepted', 'running') then 'working' else status end,
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
  with ended as (
    select v.id,
      case
        when output is not null then
          case v.operation when 'boot' then 'active' when 'discard' then 'discarded' else 'completed' end
        when v.status = 'active' then 'active'
        when v.operation = 'boot' and is_uncertain then 'active'
        when new.status = 'cancelled' then 'cancelled'
        else 'failed' end as status
    from backup_vm_restores v
    where v.command_id = new.id and (v.finished_at is null or (output is not null and v.operation <> 'boot'))
  )
  update backup_vm_restores v set
    status = ended.status,
    is_operating = false,
    vm_state = case
      when output ? 'state' then output ->> 'state'
      when v.operation = 'boot' and is_uncertain then 'unknown'
      when ended.status = 'discarded' then null
      else v.vm_state end,
    state_at = now(),
    holds_snapshot = v.holds_snapshot and ended.status = 'active',
    result = case when output is null then v.result else coalesce(v.result, '{}') || output end,
    error_code = case
      when output is not null or new.status = 'cancelled' then null
      else left(coalesce(new.error ->> 'code', upper(new.status)), 64) end,
    error_message = case
      when output is not null or new.status = 'cancelled' then null
      when new.error ->> 'message' is not null then left(new.error ->> 'message', 2000)
      when new.status = 'expired' then 'The device did not connect in time.'
      when new.reason = 'no_receipt' then 'The device was sent the command and has not confirmed it.'
      else 'The device has not reported the result in time.' end,
    finished_at = case when ended.status = 'active' then null else coalesce(v.finished_at, now()) end,
    updated_at = now()
  from ended where v.id = ended.id;
  update backup_store_credentials c set ended_at = now()
  from backup_vm_restores v
  where v.command_id = new.id and v.finished_at is not null and c.job_id = v.id and c.ended_at is null;
  return null;
end
$$;
revoke execute on function follow_vm_restore_command() from public;
create trigger commands_of_vm_restores after update of status, progress, late_result on commands
  for each row when (
    new.type in ('backup.vm-from-image', 'backup.vm-instant-boot', 'backup.vm-migrate', 'backup.vm-discard')
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_vm_restore_command();

-- Bare-metal recovery (SPEC 4.13, SHAPES 12; docs/decisions/machine-images.md).
create table backup_recovery_tokens (
  id uuid primary key,
  org_id uuid not null,
  -- The device that was backed up.
  device_id uuid not null,
  snapshot_id uuid not null,
  restore_type text not null check (restore_type in ('full', 'selective', 'bare_metal')),
  target_config jsonb not null default '{}',
  token_hash varchar(64) not null unique,
  -- Of the secret that was given to the rescue system which authenticated: only that one can go on.
  session_hash varchar(64),
  status text not null default 'active' check (status in ('active', 'authenticated', 'used', 'revoked')),
  -- Until when the token can be authenticated.
  expires_at timestamptz(3) not null,
  -- Until when the session can go on.
  session_expires_at timestamptz(3),
  authentications integer not null default 0,
  credential_id uuid,
  -- What the rescue system says of itself.
  machine jsonb,
  progress jsonb,
  result jsonb,
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  authenticated_at timestamptz(3),
  -- When it was used up or revoked.
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_recovery_tokens_end check ((finished_at is not null) = (status in ('used', 'revoked'))),
  -- It is removed with its snapshot, and moves to another organization with it.
  foreign key (org_id, snapshot_id) references backup_snapshots (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
create index backup_recovery_tokens_of_org on backup_recovery_tokens (org_id, created_at desc, id desc);
create index backup_recovery_tokens_of_device on backup_recovery_tokens (device_id, created_at desc, id desc);
create index backup_recovery_tokens_of_snapshot on backup_recovery_tokens (snapshot_id);
create index backup_recovery_tokens_by_age on backup_recovery_tokens (org_id, created_at);
select protect_table('backup_recovery_tokens', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_recovery_tokens to svc_system;
create trigger backup_recovery_tokens_work after update on backup_recovery_tokens
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('recovery');

-- All that the store asks before it answers a request, in one statement. Only the server itself opens a repository of a
-- tenant that is gone, and a recovery of a machine ends with the right of the person who created its token.
create function backup_store_request(wanted_credential uuid, wanted_type text, wanted_name text) returns table (
  secret_hash text, role text, repository_id uuid, org_id uuid, partner_id uuid, job_id uuid, as_of timestamptz,
  snapshot_name text, expires_at timestamptz, is_live boolean, is_pruning boolean, size bigint,
  object_credential_id uuid, object_role text, arrived_at timestamptz, trashed_at timestamptz, lost_at timestamptz
) language sql stable security definer set search_path = pg_catalog, public as $$
  select c.secret_hash, c.role, c.repository_id, c.org_id, g.partner_id, c.job_id, c.as_of, c.snapshot_name,
    c.expires_at,
    c.ended_at is null and c.expires_at > now() and (c.role = 'server' or (
      g.deleted_at is null and g.status <> 'churned' and p.deleted_at is null and p.status <> 'churned'
      and not exists (
        select from backup_recovery_tokens t
        where t.id = c.job_id
          and not person_still_holds(t.created_by, g.partner_id, array[c.org_id], array['recovery:execute'])))),
    coalesce(r.pruning_until > now(), false),
    o.size, o.credential_id, w.role, o.arrived_at, o.trashed_at, o.lost_at
  from backup_store_credentials c
  join backup_repositories r on r.id = c.repository_id
  join organizations g on g.id = c.org_id
  join partners p on p.id = g.partner_id
  left join backup_objects o on o.repository_id = c.repository_id and o.type = wanted_type and o.name = wanted_name
  left join backup_store_credentials w on w.id = o.credential_id
  where c.id = wanted_credential
$$;
revoke execute on function backup_store_request(uuid, text, text) from public;
grant execute on function backup_store_request(uuid, text, text) to svc_app, svc_system;

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function follow_use_of_snapshot() owner to svc_system;
alter function follow_vm_restore_command() owner to svc_system;
alter function backup_store_request(uuid, text, text) owner to svc_system;
revoke create on schema public from svc_system;
