-- Dynamic groups: their devices are those that a saved filter finds, and how a device came into a group or out of it is
-- noted (SHAPES 5).

alter table device_groups
  add column filter_id uuid,
  -- When all of its devices were last compared with what the filter finds.
  add column evaluated_at timestamptz(3),
  -- A filter that is in use is not deleted.
  add foreign key (org_id, filter_id) references saved_filters (org_id, id),
  add constraint device_groups_filter check ((type = 'dynamic') = (filter_id is not null));
create index device_groups_by_filter on device_groups (org_id, filter_id) where filter_id is not null;

-- Without a key to the device: it may be in another organization since.
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
  -- Who has changed it by hand, or changed what it follows from; nobody where the device itself has changed.
  changed_by uuid references users (id) on delete set null,
  primary key (org_id, group_id, id),
  foreign key (org_id, group_id) references device_groups (org_id, id) on delete cascade
);
select protect_table('device_group_changes', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, delete');
