-- Backups of databases (SPEC 4.13, SHAPES 12; docs/decisions/backup-databases.md).

alter table backup_jobs
  -- What a person has asked for.
  add column wanted_type text,
  -- What was decided when the job was given to its device, and why.
  add column backup_type text,
  add column type_reason varchar(500),
  add constraint backup_jobs_types check (
    wanted_type in ('full', 'differential', 'log') and backup_type in ('full', 'differential', 'log')) not valid;

-- Database servers as devices list them.
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

-- A restore of a database is one like others, with what is particular of it: what was asked for, and what was reached.
alter table backup_restores
  add column database jsonb,
  add column database_result jsonb;

create or replace trigger commands_of_restores after update of status, progress, late_result on commands
  for each row when (new.type like 'backup.%restore'
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_restore_command();
create or replace trigger commands_of_restores_advance after update of status, progress on commands
  for each row when (new.type like 'backup.%restore'
    and (old.status, old.progress) is distinct from (new.status, new.progress))
  execute function follow_restore_advance();

-- Beside `follow_restore_command`, which knows what all restores have.
create function follow_database_restore() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update backup_restores
  set database_result = coalesce(new.output, new.late_result -> 'output') -> 'database'
  where command_id = new.id;
  return null;
end
$$;
revoke execute on function follow_database_restore() from public;
grant create on schema public to svc_system;
alter function follow_database_restore() owner to svc_system;
revoke create on schema public from svc_system;
create trigger commands_of_database_restores after update of status, late_result on commands
  for each row when (new.type = 'backup.database-restore'
    and coalesce(new.output, new.late_result -> 'output') is not null)
  execute function follow_database_restore();

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0099 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
