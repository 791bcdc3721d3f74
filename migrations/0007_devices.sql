-- Devices, how they come in, whether they are there and what they say of themselves (SPEC 2.5, 2.8, SHAPES 5).

create table enrollment_keys (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  site_id uuid,
  name varchar(255) not null,
  key_hash char(64) not null unique,
  key_prefix varchar(16) not null,
  usage_count integer not null default 0,
  max_usage integer check (max_usage > 0),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  foreign key (org_id, site_id) references sites (org_id, id) on delete cascade
);
create index enrollment_keys_by_org on enrollment_keys (org_id, created_at desc, id);
select protect_table('enrollment_keys', 'org_id = any((select app_org_ids())::uuid[])');

create table devices (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  site_id uuid not null,
  hostname varchar(255) not null,
  display_name varchar(255),
  search_text text
    generated always as (lower(hostname || chr(31) || coalesce(display_name, ''))) stored,
  -- When the host name last changed, so that a device cannot change it without end.
  renamed_at timestamptz(3),
  -- What a person or a process has decided about the device. Whether it is connected stands in device_presence,
  -- so that a heartbeat cannot overwrite the one with the other.
  condition text not null default 'normal'
    check (condition in ('normal', 'maintenance', 'updating', 'pending', 'quarantined', 'decommissioned')),
  -- When maintenance ends by itself; counts only while the device is in maintenance.
  maintenance_until timestamptz(3),
  -- What a decommissioned device was before, and is again when it is restored.
  decommissioned_from text,
  os_type text not null check (os_type in ('windows', 'macos', 'linux')),
  os_version varchar(200) not null,
  os_build varchar(100),
  architecture text not null check (architecture in ('x64', 'x86', 'arm64')),
  agent_version varchar(50) not null,
  watchdog_version varchar(50),
  -- What the watchdog says about the agent that it runs; null where it has said nothing.
  agent_state varchar(20),
  agent_state_message varchar(2000),
  agent_state_since timestamptz(3),
  machine_id varchar(128),
  -- The machine id with which a device was enrolled while a connected device had it. The record of that one keeps
  -- `machine_id`, which is unique.
  claimed_machine_id varchar(128),
  tags text[] not null default '{}',
  custom_fields jsonb not null default '{}',
  hardware jsonb not null default '{}',
  network jsonb not null default '{}',
  capabilities text[] not null default '{}',
  auto_update boolean not null default true,
  last_user varchar(255),
  pending_reboot boolean,
  enrolled_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, site_id) references sites (org_id, id)
);
create unique index devices_machine_key on devices (org_id, machine_id) where machine_id is not null;
create index devices_by_site on devices (org_id, site_id);
create index devices_maintenance_ending on devices (maintenance_until)
  where condition = 'maintenance' and maintenance_until is not null;
-- Global search (SPEC 4.7) looks for any part of a name. Row level security has each row's tenant checked before a
-- `like`, so no index over the text can serve it; what serves is to read nothing else than the tenant's names, from an
-- index that holds them. It is written when a device is renamed, not when it reports: docs/decisions/filters.md.
create index devices_search on devices (org_id) include (search_text, id) where condition <> 'decommissioned';
-- What lists and previews go through first, of a fleet in service: counted, filtered by status and put in order without
-- reading a record.
create index devices_listed on devices (org_id, lower(hostname), id) include (hostname, condition)
  where condition <> 'decommissioned';
-- For the check that ends the status `updating`; most of the time it is empty.
create index devices_updating on devices (id) where condition = 'updating';
-- Which devices were enrolled with the machine id of another one.
create index devices_by_claim on devices (org_id, claimed_machine_id)
  where claimed_machine_id is not null;
select protect_table('devices', 'org_id = any((select app_org_ids())::uuid[])');
-- A device that no longer waits for approval: servers remember its token as that of a device that waits.
create trigger devices_access after update of condition on devices
  for each row when (old.condition = 'pending' and new.condition <> 'pending')
  execute function announce_access_change('agent', 'id');

-- Narrow and without an index on what changes with each heartbeat, so that heartbeats are heap-only updates. The key to
-- the device is in the last file of this baseline.
create table device_presence (
  device_id uuid primary key,
  org_id uuid not null,
  epoch bigint not null,
  node_id text not null,
  state text not null check (state in ('connected', 'disconnected')),
  since timestamptz(3) not null,
  reason text not null
    check (reason in ('connected', 'heartbeat_missed', 'socket_closed', 'node_lost', 'updating', 'never_seen')),
  last_seen_at timestamptz(3),
  last_ip varchar(45),
  -- A device that reports over plain HTTP, without a connection, counts as online until then, whatever `state` says.
  -- Without an index, as all that a heartbeat changes here.
  reports_until timestamptz(3),
  cpu_percent real,
  ram_percent real,
  disk_percent real,
  -- Of disks that are half full, how full in whole percents: the rest changes with every heartbeat, and is not indexed.
  disk_over smallint
    generated always as (case when disk_percent >= 50 then trunc(disk_percent)::smallint end) stored,
  metrics_at timestamptz(3),
  uptime_seconds bigint
) with (fillfactor = 50);
-- Since when a device is there or gone. Connecting and going change it; the heartbeats of a connection do not, and
-- stay heap-only.
create index device_presence_by_change on device_presence (state, (greatest(since, reports_until)));
create index device_presence_full_disks on device_presence (disk_over) where disk_over is not null;
-- Presence of a tenant's devices, read together: looking into the key for each device was most of the time that a
-- preview or a list took. An organization does not change with heartbeats, so that they stay heap-only.
create index device_presence_by_org on device_presence (org_id);
select protect_table('device_presence', 'org_id = any((select app_org_ids())::uuid[])');

create table agent_credentials (
  token_hash char(64) primary key,
  device_id uuid not null,
  org_id uuid not null,
  -- The agent has been given the token and has not used it yet. Its first use ends the one before it.
  staged boolean not null default false,
  -- The id under which an agent was enrolled, where its token opens another device, which it replaces. The agent goes
  -- on using that id in its requests.
  enrolled_as uuid,
  created_at timestamptz(3) not null default now(),
  revoked_at timestamptz(3),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index agent_credentials_by_device on agent_credentials (device_id);
create unique index agent_credentials_staged on agent_credentials (device_id) where staged and revoked_at is null;
create index agent_credentials_revoked on agent_credentials (org_id, revoked_at)
  where revoked_at is not null;
select protect_table('agent_credentials', 'org_id = any((select app_org_ids())::uuid[])');
-- A device that is decommissioned loses its tokens, one that moves to another organization takes them along.
create trigger agent_credentials_access after update of revoked_at, org_id on agent_credentials
  for each row when ((old.revoked_at, old.org_id) is distinct from (new.revoked_at, new.org_id))
  execute function announce_access_change('agent', 'device_id');
create trigger agent_credentials_access_ended after delete on agent_credentials
  for each row when (old.revoked_at is null)
  execute function announce_access_change('agent', 'device_id');

-- How many devices may be in service in the organization and in its partner, where they have a cap, and how many are:
-- for a device that is about to be added. Regardless of what the caller sees, because the cap of a partner is one for
-- all of its organizations. The rows that carry the caps are locked until the end of the transaction, so that a cap
-- holds however many come at once.
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
revoke execute on function lock_device_caps(uuid) from public;
grant execute on function lock_device_caps(uuid) to svc_app, svc_system;

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

-- Beside the hardware and network of SPEC 2.8, which are in the record of the device.
create table device_inventory (
  org_id uuid not null,
  device_id uuid not null,
  interfaces jsonb not null default '[]',
  -- Whether the device has ever reported its software: the first report holds no changes.
  has_software boolean not null default false,
  -- What could not be read for the newest inventory: a list of { source, message }.
  failed_sources jsonb not null default '[]',
  collected_at timestamptz(3) not null,
  received_at timestamptz(3) not null default now(),
  primary key (org_id, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade
);
select protect_table('device_inventory', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- Each name once for an organization, so that a search for a part of a name reads some thousand rows, however many
-- devices have it.
create table software_titles (
  org_id uuid not null references organizations (id),
  id bigint not null generated always as identity,
  name varchar(255) not null check (name <> ''),
  primary key (org_id, id),
  unique (org_id, name)
);
select protect_table('software_titles', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');

-- The lock of the titles of an organization. Code that adds software to titles, in the order of their names, holds it
-- shared. Code that removes titles without software holds it alone, because it could otherwise remove one that the
-- former has just found; and so does the move of a device, which adds titles in another order.
create function software_titles_lock(org uuid) returns bigint language sql immutable parallel safe as $$
  select hashtextextended('software titles of ' || org, 0)
$$;

create table device_software (
  org_id uuid not null,
  device_id uuid not null,
  title_id bigint not null,
  -- Empty where the machine does not say. A title may be there in several versions at once.
  version varchar(255) not null default '',
  publisher varchar(255),
  -- What has reported the title, such as `dpkg`; null where the agent did not say.
  source varchar(50),
  installed_at timestamptz(3),
  primary key (org_id, device_id, title_id, version),
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade,
  foreign key (org_id, title_id) references software_titles (org_id, id)
);
create index device_software_by_title on device_software (org_id, title_id, device_id, version);
select protect_table('device_software', 'org_id = any((select app_org_ids())::uuid[])');

-- A device that moves takes its software along: the cascade from its record changes only the organization, whose titles
-- have other ids. The titles of the old one stay; they are few, and the next device there that has them finds them.
create function move_software() returns trigger language plpgsql set search_path = pg_catalog, public as $$
declare
  title varchar(255);
begin
  perform pg_advisory_xact_lock(software_titles_lock(new.org_id));
  select t.name into title from software_titles t where t.org_id = old.org_id and t.id = old.title_id;
  insert into software_titles (org_id, name) select new.org_id, title where title is not null
  on conflict (org_id, name) do nothing;
  select t.id into new.title_id from software_titles t where t.org_id = new.org_id and t.name = title;
  return new;
end
$$;
create trigger move_software before update of org_id on device_software
for each row when (old.org_id <> new.org_id) execute function move_software();

-- By name, so that a change outlives the title. Code that adds changes keeps the newest thousand of the device.
create table software_changes (
  org_id uuid not null,
  device_id uuid not null,
  id bigint not null generated always as identity,
  at timestamptz(3) not null,
  change text not null check (change in ('installed', 'updated', 'removed')),
  name varchar(255) not null,
  version varchar(255) not null default '',
  previous_version varchar(255) not null default '',
  primary key (org_id, device_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade
);
select protect_table('software_changes', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function lock_device_caps(uuid) owner to svc_system;
revoke create on schema public from svc_system;
