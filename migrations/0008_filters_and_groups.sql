-- Saved filters, and groups of devices (SPEC 1.1, 2.7, SHAPES 5). The devices of a static group are named one by one;
-- those of a dynamic one are the devices that a saved filter finds.

-- Conditions are text: as jsonb, and read back as such, they could not be nested as deep as the specification lets them
-- be. They are checked before they are stored, and each time they are used.
create table saved_filters (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  description varchar(1000),
  conditions text not null check (octet_length(conditions) between 1 and 2000000),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id)
);
create index saved_filters_newest on saved_filters (org_id, created_at desc, id desc);
select protect_table('saved_filters', 'org_id = any((select app_org_ids())::uuid[])');

create table device_groups (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  -- Where the group is filed. Its devices may be at any site of the organization, so it outlives the site.
  site_id uuid,
  name varchar(255) not null check (name <> ''),
  description varchar(1000),
  type text not null default 'static' check (type in ('static', 'dynamic')),
  filter_id uuid,
  -- When all of its devices were last compared with what the filter finds.
  evaluated_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, site_id) references sites (org_id, id) on delete set null (site_id),
  -- A filter that is in use is not deleted.
  foreign key (org_id, filter_id) references saved_filters (org_id, id),
  constraint device_groups_filter check ((type = 'dynamic') = (filter_id is not null))
);
create unique index device_groups_name_key on device_groups (org_id, lower(name));
create index device_groups_by_site on device_groups (org_id, site_id) where site_id is not null;
create index device_groups_by_filter on device_groups (org_id, filter_id) where filter_id is not null;
select protect_table('device_groups', 'org_id = any((select app_org_ids())::uuid[])');

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
select protect_table('device_group_members', 'org_id = any((select app_org_ids())::uuid[])');

-- How devices came into groups and out of them. Without a key to the device, which may be in another organization by
-- now.
create table device_group_changes (
  org_id uuid not null,
  group_id uuid not null,
  id bigint not null generated always as identity,
  device_id uuid not null,
  hostname varchar(255) not null,
  change text not null check (change in ('joined', 'left')),
  reason text not null check (reason in ('manual', 'group_created', 'filter_match', 'filter_unmatch', 'filter_changed',
    'device_moved', 'device_decommissioned')),
  at timestamptz(3) not null default now(),
  -- The person who has changed it by hand, or has changed the cause of it; null where the device itself has changed.
  changed_by uuid references users (id) on delete set null,
  primary key (org_id, group_id, id),
  foreign key (org_id, group_id) references device_groups (org_id, id) on delete cascade
);
create index device_group_changes_by_age on device_group_changes (org_id, at);
select protect_table('device_group_changes', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, delete');
