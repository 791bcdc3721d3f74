-- What people decide about devices: fields of their own, maintenance that ends, restoring, moving (SHAPES 5).

-- What an organization notes of its devices. The values stand in devices.custom_fields, by key.
create table custom_fields (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  key varchar(64) not null check (key ~ '^[a-z][a-z0-9_]{0,63}$'),
  name varchar(255) not null check (name <> ''),
  type text not null check (type in ('string', 'number', 'boolean', 'date', 'list')),
  description varchar(1000),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint custom_fields_key unique (org_id, key)
);
select protect_table('custom_fields', 'org_id = any((select app_org_ids())::uuid[])');

alter table devices
  -- When maintenance ends by itself; counts only while the device is in maintenance.
  add column maintenance_until timestamptz(3),
  -- What a decommissioned device was before, and is again when it is restored.
  add column decommissioned_from text;
create index devices_maintenance_ending on devices (maintenance_until)
  where condition = 'maintenance' and maintenance_until is not null;

-- A device may come to another organization, and what belongs to it comes along. device_group_members does not: groups
-- are an organization's, and end with the move. Keys work in the order in which they are made: first those of tables
-- that may have a great many rows of a device, last the one of which heartbeats of all devices would wait.
alter table device_event_logs
  drop constraint device_event_logs_org_id_device_id_fkey,
  add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;
alter table agent_logs
  drop constraint agent_logs_org_id_device_id_fkey,
  add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;
alter table command_transitions
  drop constraint command_transitions_org_id_command_id_fkey,
  add foreign key (org_id, command_id) references commands (org_id, id) on delete cascade on update cascade;
alter table commands
  drop constraint commands_org_id_device_id_fkey,
  add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;
alter table agent_credentials
  drop constraint agent_credentials_org_id_device_id_fkey,
  add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;
alter table device_presence
  drop constraint device_presence_org_id_device_id_fkey,
  add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;

-- How many devices may be in service where a device is to come, and how many are: of the organization, and of its
-- partner, where they have a cap. Across what the caller sees, since a cap is one of all organizations. The rows that
-- carry the caps are locked until the end of the transaction, so that a cap holds however many come at once.
create function lock_device_caps(wanted uuid) returns table (cap_of text, cap integer, devices integer)
language plpgsql volatile security definer set search_path = pg_catalog, public as $$
declare
  partner uuid := (select o.partner_id from organizations o where o.id = wanted);
begin
  select p.max_devices into cap from partners p where p.id = partner and p.max_devices is not null for no key update;
  if cap is not null then
    cap_of := 'provider';
    devices := (select count(*) from devices d join organizations o on o.id = d.org_id
      where o.partner_id = partner and d.condition <> 'decommissioned');
    return next;
  end if;
  select o.max_devices into cap from organizations o where o.id = wanted and o.max_devices is not null for no key update;
  if cap is not null then
    cap_of := 'organization';
    devices := (select count(*) from devices d where d.org_id = wanted and d.condition <> 'decommissioned');
    return next;
  end if;
end
$$;
grant create on schema public to svc_system;
alter function lock_device_caps(uuid) owner to svc_system;
revoke create on schema public from svc_system;
revoke execute on function lock_device_caps(uuid) from public;
grant execute on function lock_device_caps(uuid) to svc_app, svc_system;
