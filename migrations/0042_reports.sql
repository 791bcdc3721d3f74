-- Monthly reports of organizations (src/features/reports).

-- When a device was taken out of service. Null for those that were before this file: when is not known.
alter table devices add column decommissioned_at timestamptz(3);

create function note_decommissioning() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  new.decommissioned_at := case when new.condition = 'decommissioned' then now() end;
  return new;
end
$$;
create trigger devices_note_decommissioning before update of condition on devices
  for each row when ((old.condition = 'decommissioned') <> (new.condition = 'decommissioned'))
  execute function note_decommissioning();

-- The provider of an organization as its reports name it. A person of an organization does not see the row of the
-- provider. Callers join it to organizations, of which they see their own only.
create function report_provider(organization uuid)
returns table (name varchar, logo_url text, accent_color varchar)
language sql stable security definer set search_path = pg_catalog, public as $$
  select p.name, b.logo_url, b.accent_color from organizations o join partners p on p.id = o.partner_id
  left join partner_login_branding b on b.partner_id = p.id where o.id = organization
$$;
revoke execute on function report_provider(uuid) from public;
grant execute on function report_provider(uuid) to svc_app, svc_system;

grant create on schema public to svc_system;
alter function report_provider(uuid) owner to svc_system;
revoke create on schema public from svc_system;

-- Reports that are mailed once a month.
create table report_schedules (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, a report for each of its organizations.
  org_id uuid,
  name varchar(100) not null check (name <> ''),
  day_of_month smallint not null check (day_of_month between 1 and 28),
  -- On the clocks of the zone, such as 08:30.
  time varchar(5) not null,
  timezone varchar(50) not null,
  -- People, who are mailed at the address that they have then, and further addresses.
  user_ids uuid[] not null default '{}',
  addresses text[] not null default '{}',
  -- Whose rights decide what is mailed: the person who has saved it last. Null: the account is gone.
  person_id uuid references users (id) on delete set null,
  -- When it is due next; null while it is paused.
  due_at timestamptz(3),
  -- Why the server has paused it; null if a person has, or it is not paused.
  paused_because varchar(300),
  last_due_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create unique index report_schedules_name on report_schedules (coalesce(org_id, partner_id), lower(name));
create index report_schedules_of_owner on report_schedules (partner_id, org_id);
create index report_schedules_of_person on report_schedules (person_id) where person_id is not null;
create index report_schedules_due on report_schedules (due_at) where due_at is not null;
select protect_table('report_schedules',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');
