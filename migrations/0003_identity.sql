-- People, what they may do, and where they are signed in (SPEC 2.6, SHAPES 4).

create table users (
  id uuid primary key,
  email varchar(255) not null,
  name varchar(255) not null,
  password_hash text,
  status text not null default 'active' check (status in ('active', 'invited', 'disabled')),
  mfa_enabled boolean not null default false,
  last_login_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create unique index users_email_key on users (lower(email));

create table roles (
  id uuid primary key,
  scope text not null check (scope in ('system', 'partner', 'organization')),
  partner_id uuid references partners (id),
  org_id uuid references organizations (id),
  name varchar(100) not null,
  description varchar(500),
  permissions text[] not null,
  is_system boolean not null default false,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  check (partner_id is null or org_id is null)
);

create table system_users (
  user_id uuid primary key references users (id) on delete cascade,
  role_id uuid not null references roles (id),
  created_at timestamptz(3) not null default now()
);

create table partner_users (
  partner_id uuid not null references partners (id),
  user_id uuid not null references users (id) on delete cascade,
  role_id uuid not null references roles (id),
  org_access text not null default 'none' check (org_access in ('all', 'selected', 'none')),
  org_ids uuid[] not null default '{}',
  created_at timestamptz(3) not null default now(),
  primary key (partner_id, user_id)
);
create unique index partner_users_user_key on partner_users (user_id);

create table organization_users (
  org_id uuid not null references organizations (id),
  user_id uuid not null references users (id) on delete cascade,
  role_id uuid not null references roles (id),
  created_at timestamptz(3) not null default now(),
  primary key (org_id, user_id)
);
create unique index organization_users_user_key on organization_users (user_id);

-- A session is one refresh family: everything that descends from one sign-in.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  revoked_reason text,
  mfa boolean not null default false,
  ip_address varchar(45),
  user_agent text
);
create index sessions_by_user on sessions (user_id) where revoked_at is null;

create table refresh_tokens (
  token_hash char(64) primary key,
  session_id uuid not null references sessions (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  used_at timestamptz(3)
);
create index refresh_tokens_by_session on refresh_tokens (session_id);

select protect_table('roles',
  '(partner_id is null and org_id is null) or partner_id = (select app_partner_id())
    or org_id = any((select app_org_ids())::uuid[])',
  'partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[])');
select protect_table('partner_users', 'partner_id = (select app_partner_id())');
select protect_table('organization_users', 'org_id = any((select app_org_ids())::uuid[])');
select protect_table('users',
  'id = (select app_user_id()) or id in (select user_id from partner_users)
    or id in (select user_id from organization_users)');
-- No tenant's business: found by the holder's secret alone, before anyone knows whose they are.
select protect_table('system_users', null);
select protect_table('sessions', null);
select protect_table('refresh_tokens', null);

-- The roles that every deployment has. Their ids are fixed so that code and other migrations can name them.
set local role svc_system;
insert into roles (id, scope, name, permissions, is_system) values
  ('01900000-0000-7000-8000-000000000001', 'system', 'System Admin', '{*:*}', true),
  ('01900000-0000-7000-8000-000000000002', 'partner', 'Partner Admin', '{*:*}', true),
  ('01900000-0000-7000-8000-000000000003', 'partner', 'Partner Technician',
    '{organizations:read,sites:read,sites:write,devices:read,devices:write,devices:execute,scripts:read,scripts:write,scripts:execute,alerts:read,alerts:write,backup:read,backup:execute,filters:read,filters:write,agents:read,agents:write}', true),
  ('01900000-0000-7000-8000-000000000004', 'partner', 'Partner Viewer',
    '{organizations:read,sites:read,devices:read,scripts:read,alerts:read,backup:read,filters:read,agents:read}', true),
  ('01900000-0000-7000-8000-000000000005', 'organization', 'Organization Admin', '{*:*}', true),
  ('01900000-0000-7000-8000-000000000006', 'organization', 'Organization Technician',
    '{organizations:read,sites:read,devices:read,devices:write,devices:execute,scripts:read,scripts:execute,alerts:read,alerts:write,backup:read,backup:execute,filters:read,filters:write,agents:read,agents:write}', true),
  ('01900000-0000-7000-8000-000000000007', 'organization', 'Organization Viewer',
    '{organizations:read,sites:read,devices:read,scripts:read,alerts:read,backup:read,filters:read,agents:read}', true);
reset role;
