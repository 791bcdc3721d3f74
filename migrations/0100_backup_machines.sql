-- Guests of hypervisors (SPEC 4.13, SHAPES 12; docs/decisions/windows-backups.md).

-- Guests as devices list them.
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

alter table backup_jobs
  -- What a person has asked for in place of what the configuration says.
  add column sources jsonb;

alter table backup_restores
  -- Of the restore of a machine: { hypervisor, name, vmName, generateNewId }.
  add column machine jsonb;

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0101 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
