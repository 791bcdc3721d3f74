-- Maintenance windows that are planned ahead, once or again and again (docs/decisions/maintenance-windows.md). An addition
-- to SPEC.

create table maintenance_windows (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, for all of its organizations.
  org_id uuid,
  name varchar(100) not null check (name <> ''),
  -- Which devices: { all } or one of { filterId, groupIds, siteIds, deviceIds }.
  target jsonb not null,
  timezone varchar(50) not null,
  -- The date and time on the clocks of that zone, such as 2026-12-24T22:00.
  start varchar(16) not null,
  duration_minutes integer not null check (duration_minutes between 1 and 10080),
  -- Null: it happens once.
  repeat jsonb,
  suppress_alerts boolean not null,
  suppress_upgrades boolean not null,
  -- A person ended the occurrence that was in progress at this time.
  ended_early_at timestamptz(3),
  -- When a server has to look at it again; null if nothing lies ahead.
  due_at timestamptz(3) default now(),
  -- The end of the occurrence in progress, as the lists of devices were told.
  shown_until timestamptz(3),
  -- When its last occurrence ended; null while others lie ahead.
  over_since timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create unique index maintenance_windows_name on maintenance_windows (coalesce(org_id, partner_id), lower(name));
create index maintenance_windows_of_owner on maintenance_windows (partner_id, org_id);
create index maintenance_windows_of_creator on maintenance_windows (created_by) where created_by is not null;
create index maintenance_windows_due on maintenance_windows (due_at) where due_at is not null;
create index maintenance_windows_over on maintenance_windows (over_since) where over_since is not null;
select protect_table('maintenance_windows',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- The devices of occurrences that are in progress, begin within minutes or have just ended. Each row has all that its
-- readers need, so that they look it up by the device alone, and so that people of an organization see what a window of
-- their partner does to their devices.
create table maintenance_members (
  window_id uuid not null references maintenance_windows (id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  name varchar(100) not null,
  starts_at timestamptz(3) not null,
  ends_at timestamptz(3) not null,
  suppress_alerts boolean not null,
  suppress_upgrades boolean not null,
  primary key (window_id, starts_at, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index maintenance_members_of_device on maintenance_members (org_id, device_id);
create index maintenance_members_by_end on maintenance_members (ends_at) where suppress_alerts;
-- Servers write the rows. A tenant removes those of a device that moves away.
select protect_table('maintenance_members', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, delete');
grant insert, update on maintenance_members to svc_system;

-- A device that moves to another organization leaves the windows of the former one at once. Those that have it as their
-- target in the new one take it within a minute.
create function leave_maintenance() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  delete from maintenance_members where org_id = old.org_id and device_id = old.id;
  return new;
end
$$;
create trigger devices_leave_maintenance before update of org_id on devices
  for each row when (old.org_id is distinct from new.org_id) execute function leave_maintenance();

-- Every server holds in memory which devices are offered no upgrades (docs/decisions/agent-update-targets.md). One notice
-- for each window, however many devices it has.
create function announce_maintenance_change() returns trigger language plpgsql set search_path = pg_catalog, public as $$
declare
  changed_window uuid;
begin
  for changed_window in select distinct window_id from changed loop
    perform pg_notify('muster_upgrades', json_build_object('kind', 'maintenance', 'id', changed_window)::text);
  end loop;
  return null;
end
$$;
create trigger maintenance_members_added after insert on maintenance_members
  referencing new table as changed for each statement execute function announce_maintenance_change();
create trigger maintenance_members_changed after update on maintenance_members
  referencing new table as changed for each statement execute function announce_maintenance_change();
create trigger maintenance_members_removed after delete on maintenance_members
  referencing old table as changed for each statement execute function announce_maintenance_change();
