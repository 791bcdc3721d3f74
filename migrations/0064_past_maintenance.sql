-- Which devices were in planned maintenance, and when: windows are changed and deleted afterwards, and the report of a month
-- tells maintenance apart from failures for ever (docs/decisions/maintenance-windows.md).

-- Null: from the beginning of the occurrence, as the release before writes it.
alter table maintenance_members add column planned_from timestamptz(3);

-- A row for the devices of an organization that were in maintenance in the same time.
create table past_maintenance (
  id uuid primary key default new_row_id(),
  org_id uuid not null references organizations (id) on delete cascade,
  begins_at timestamptz(3) not null,
  ends_at timestamptz(3) not null,
  device_ids uuid[] not null check (device_ids <> '{}'),
  check (begins_at < ends_at)
);
create index past_maintenance_of_organization on past_maintenance (org_id, ends_at);
create index past_maintenance_by_end on past_maintenance (ends_at);
select protect_table('past_maintenance', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
-- Written by a trigger, and removed by age.
grant insert, delete on past_maintenance to svc_system;

-- A row of a device goes when its occurrence is over, when the device is no target any more, and when the window is
-- deleted: whatever of it has passed is kept. As definer, because tenants remove rows and write no past.
create function keep_past_maintenance() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into past_maintenance (org_id, begins_at, ends_at, device_ids)
  select p.org_id, p.begins_at, p.ends_at, array_agg(p.device_id order by p.device_id)
  from (
    select org_id, device_id, coalesce(planned_from, starts_at) as begins_at,
      least(ends_at, clock_timestamp())::timestamptz(3) as ends_at
    from gone
  ) p
  -- Rows may go with their organization.
  where p.begins_at < p.ends_at and exists (select from organizations o where o.id = p.org_id)
  group by p.org_id, p.begins_at, p.ends_at;
  return null;
end
$$;
revoke execute on function keep_past_maintenance() from public;
grant create on schema public to svc_system;
alter function keep_past_maintenance() owner to svc_system;
revoke create on schema public from svc_system;
create trigger maintenance_members_past after delete on maintenance_members
  referencing old table as gone for each statement execute function keep_past_maintenance();

-- What was before is not known: for organizations that are there, this is the time of the migration.
alter table organizations add column maintenance_recorded_since timestamptz(3) not null default now();
