-- Partner › organization › site (SPEC 2.1 to 2.4), and notices of changes of access.

-- Every server remembers for a while who may do what: the callers behind open dashboard sockets, the verdicts on agent
-- tokens. Each change of a row that such a verdict is made of is announced, in the transaction of the change, to all
-- servers: no service function can forget it, it is not lost between the commit and the announcement, and it needs no
-- Redis. The servers listen on the channel `muster_access` (docs/decisions/access-changes.md).
-- Arguments: the kind of what has changed, and the column with its id. The partner is named where the row names one.
create function announce_access_change() returns trigger language plpgsql set search_path = pg_catalog, public as $$
declare
  changed jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  perform pg_notify('muster_access', json_build_object(
    'kind', tg_argv[0], 'id', changed ->> tg_argv[1], 'partnerId', changed ->> 'partner_id')::text);
  return null;
end;
$$;

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
select protect_table('partners', 'id = (select app_partner_id())');
create trigger partners_access after update of status, deleted_at, settings on partners
  for each row when (
    (old.status, old.deleted_at, old.settings #> '{security,ipAllowlist}') is distinct from
    (new.status, new.deleted_at, new.settings #> '{security,ipAllowlist}'))
  execute function announce_access_change('partner', 'id');

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
-- Lists of names are in the order of ICU's root collation, not of code points: docs/decisions/text-from-others.md. A
-- page of a partner's organizations is read in that order from an index; other lists are short, or are sorted after
-- they are read.
create index organizations_in_order on organizations (partner_id, name collate "und-x-icu", id)
  where deleted_at is null;
create trigger organizations_access after update of status, deleted_at, partner_id on organizations
  for each row when (
    (old.status, old.deleted_at, old.partner_id) is distinct from (new.status, new.deleted_at, new.partner_id))
  execute function announce_access_change('organization', 'id');

-- Every organization the caller may act in: the listed ones, or all of its partner that are not deleted. It runs as
-- svc_system, because the policy of tenants on organizations shows more than this (deleted ones too) and would
-- otherwise be evaluated inside every other policy.
create function app_org_ids() returns uuid[]
language sql stable security definer set search_path = pg_catalog, public as $$
  select case
    when app_partner_wide() is null then app_listed_org_ids()
    else array(select id from organizations where partner_id = app_partner_wide() and deleted_at is null)
  end
$$;
-- A new organization belongs to the partner of the caller, whatever organizations the caller may see.
select protect_table('organizations',
  'partner_id = (select app_partner_wide()) or id = any((select app_listed_org_ids())::uuid[])',
  'partner_id = (select app_partner_id())');

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
select protect_table('sites', 'org_id = any((select app_org_ids())::uuid[])');

-- SPEC 5.6 distinguishes a foreign site (403) from one that does not exist (404), which a tenant cannot see by itself.
create function site_exists(wanted uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (select from sites where id = wanted)
$$;

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function app_org_ids() owner to svc_system;
alter function site_exists(uuid) owner to svc_system;
revoke create on schema public from svc_system;
