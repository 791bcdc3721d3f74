-- Saved filters (SPEC 2.7). Conditions are text: as jsonb, and read back as such, they could not be nested as deep as
-- the specification lets them be. They are checked before they come here, and each time they are used.

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

-- What lists and previews go through first, of a fleet in service: counted and put in order without reading a record.
create index devices_listed on devices (org_id, lower(hostname), id) include (hostname)
  where condition <> 'decommissioned';

select protect_table('saved_filters', 'org_id = any((select app_org_ids())::uuid[])');
