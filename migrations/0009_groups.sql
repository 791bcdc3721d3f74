-- Device groups (SPEC 1.1, SHAPES 5). The devices of a static one are named one by one; those of a dynamic one are the
-- devices that match a saved filter.

create table device_groups (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  -- Where the group is filed. Its devices may be at any site of the organization, so it outlives the site.
  site_id uuid,
  name varchar(255) not null check (name <> ''),
  description varchar(1000),
  type text not null default 'static' check (type in ('static', 'dynamic')),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, site_id) references sites (org_id, id) on delete set null (site_id)
);
create unique index device_groups_name_key on device_groups (org_id, lower(name));
create index device_groups_by_site on device_groups (org_id, site_id) where site_id is not null;

create table device_group_members (
  group_id uuid not null,
  device_id uuid not null,
  org_id uuid not null,
  added_at timestamptz(3) not null default now(),
  added_by uuid references users (id) on delete set null,
  primary key (group_id, device_id),
  foreign key (org_id, group_id) references device_groups (org_id, id) on delete cascade,
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index device_group_members_by_device on device_group_members (org_id, device_id);

select protect_table('device_groups', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('device_group_members', 'org_id = any((select app_org_ids())::uuid[])');
