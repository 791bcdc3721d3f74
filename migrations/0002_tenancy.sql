-- Partner › organization › site (SPEC 2.1 to 2.4).

create table partners (
  id uuid primary key,
  name varchar(255) not null,
  slug varchar(100) not null,
  type text not null default 'msp' check (type in ('msp', 'enterprise', 'internal')),
  plan text not null default 'free'
    check (plan in ('free', 'starter', 'community', 'pro', 'enterprise', 'unlimited')),
  status text not null default 'pending' check (status in ('pending', 'active', 'suspended', 'churned')),
  max_organizations integer check (max_organizations >= 0),
  max_devices integer check (max_devices >= 0),
  settings jsonb not null default '{}',
  sso_config jsonb not null default '{}',
  billing_email varchar(255),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3)
);
create unique index partners_slug_key on partners (slug);

create table organizations (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  name varchar(255) not null,
  slug varchar(100) not null,
  type text not null default 'customer' check (type in ('customer', 'internal')),
  status text not null default 'active' check (status in ('active', 'suspended', 'trial', 'churned')),
  max_devices integer check (max_devices >= 0),
  settings jsonb not null default '{}',
  sso_config jsonb not null default '{}',
  contract_start timestamptz(3),
  contract_end timestamptz(3),
  billing_contact jsonb,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3),
  unique (partner_id, id)
);
create unique index organizations_slug_key on organizations (partner_id, slug) where deleted_at is null;
create index organizations_by_name on organizations (partner_id, lower(name), id) where deleted_at is null;

create table sites (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(255) not null,
  address jsonb,
  timezone varchar(50) not null default 'UTC',
  contact jsonb,
  settings jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- Foreign keys ignore row level security, so whatever belongs to a site names the organization as well.
  unique (org_id, id)
);
create index sites_by_name on sites (org_id, lower(name), id);

-- Every organization the caller may act in: the listed ones, or all of its partner that are not deleted.
-- Runs as svc_system because a tenant's policy on organizations asks less than this and must not be asked in turn.
create function app_org_ids() returns uuid[]
language sql stable security definer set search_path = pg_catalog, public as $$
  select case
    when app_partner_wide() is null then app_listed_org_ids()
    else array(select id from organizations where partner_id = app_partner_wide() and deleted_at is null)
  end
$$;

-- SPEC 5.6 tells a foreign site (403) from one that does not exist (404), which a tenant cannot see by itself.
create function site_exists(wanted uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (select from sites where id = wanted)
$$;

grant create on schema public to svc_system;
alter function app_org_ids() owner to svc_system;
alter function site_exists(uuid) owner to svc_system;
revoke create on schema public from svc_system;

select protect_table('partners', 'id = (select app_partner_id())');
select protect_table('organizations',
  'partner_id = (select app_partner_wide()) or id = any((select app_listed_org_ids())::uuid[])');
select protect_table('sites', 'org_id = any((select app_org_ids())::uuid[])');
