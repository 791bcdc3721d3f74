-- Snapshots of machines that become virtual machines on a device (SPEC 4.13, SHAPES 12; docs/decisions/virtual-machines.md).
alter table backup_snapshots
  -- A machine reads it while it runs, so nothing may remove it. Kept by a trigger.
  add column in_use boolean not null default false;

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

-- It follows its commands in the same transaction, no matter who changes those, so neither a server that dies nor a device
-- that reports late leaves the two apart.
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
grant create on schema public to svc_system;
alter function follow_use_of_snapshot() owner to svc_system;
alter function follow_vm_restore_command() owner to svc_system;
revoke create on schema public from svc_system;
create trigger backup_vm_restores_use after insert or delete or update of holds_snapshot, snapshot_id on backup_vm_restores
  for each row execute function follow_use_of_snapshot();
create trigger backup_vm_restores_work_added after insert on backup_vm_restores
  referencing new table as changed for each statement execute function announce_long_work('vm_restore');
create trigger backup_vm_restores_work after update on backup_vm_restores
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('vm_restore');
create trigger commands_of_vm_restores after update of status, progress, late_result on commands
  for each row when (
    new.type in ('backup.vm-from-image', 'backup.vm-instant-boot', 'backup.vm-migrate', 'backup.vm-discard')
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_vm_restore_command();

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0105 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
