-- What machines say of themselves beyond their heartbeats: interfaces of the network, installed software, and what of it
-- has changed (SHAPES 5). Hardware and network of SPEC 2.8 stay in the record of the device.

create table device_inventory (
  org_id uuid not null,
  device_id uuid not null,
  interfaces jsonb not null default '[]',
  -- Whether its software was ever told: what is there then is no change.
  has_software boolean not null default false,
  collected_at timestamptz(3) not null,
  received_at timestamptz(3) not null default now(),
  primary key (org_id, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade
);

-- Each name once an organization, so that whoever looks for a part of it reads some thousand rows, however many devices
-- have it.
create table software_titles (
  org_id uuid not null references organizations (id),
  id bigint not null generated always as identity,
  name varchar(255) not null check (name <> ''),
  primary key (org_id, id),
  unique (org_id, name)
);

create table device_software (
  org_id uuid not null,
  device_id uuid not null,
  title_id bigint not null,
  -- Empty where the machine does not say. A title may be there in several versions at once.
  version varchar(255) not null default '',
  publisher varchar(255),
  installed_at timestamptz(3),
  primary key (org_id, device_id, title_id, version),
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade,
  foreign key (org_id, title_id) references software_titles (org_id, id)
);
create index device_software_by_title on device_software (org_id, title_id, device_id, version);

-- By name, so that it outlives the title. The newest thousand of a device are kept, by whoever adds some.
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

select protect_table('device_inventory', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
select protect_table('software_titles', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');
select protect_table('device_software', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('software_changes', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');

-- Who adds software to titles, in the order of their names, holds this shared. Who removes titles that nothing is left of
-- holds it alone, for otherwise the one could take away what the other has just found; and so does a move, which adds
-- them in another order.
create function software_titles_lock(org uuid) returns bigint language sql immutable parallel safe as $$
  select hashtextextended('software titles of ' || org, 0)
$$;

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
