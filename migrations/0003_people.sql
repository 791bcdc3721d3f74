-- People, their roles and memberships, and how they sign in (SPEC 2.6, SHAPES 4).

create table users (
  id uuid primary key,
  email varchar(255) not null,
  name varchar(255) not null,
  password_hash text,
  -- Null: no person has proved yet to receive the mail of this address (docs/decisions/verified-addresses.md).
  email_verified_at timestamptz(3),
  status text not null default 'active' check (status in ('active', 'invited', 'disabled')),
  mfa_enabled boolean not null default false,
  last_login_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create unique index users_email_key on users (lower(email));
create trigger users_access after update of status on users
  for each row when (old.status is distinct from new.status)
  execute function announce_access_change('person', 'id');
create trigger users_access_ended after delete on users
  for each row execute function announce_access_change('person', 'id');

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
create index roles_by_partner on roles (partner_id) where partner_id is not null;
-- Without a notice of deletion, because a role that a person holds cannot be deleted.
create trigger roles_access after update of permissions, scope on roles
  for each row when (old.permissions is distinct from new.permissions or old.scope is distinct from new.scope)
  execute function announce_access_change('role', 'id');

create table system_users (
  user_id uuid primary key references users (id) on delete cascade,
  role_id uuid not null references roles (id),
  created_at timestamptz(3) not null default now()
);
-- No tenant sees these.
select protect_table('system_users', null);
-- Every update, so that a column which is added to memberships later, such as a state, is announced as well.
create trigger system_users_access after insert or update or delete on system_users
  for each row execute function announce_access_change('person', 'user_id');

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
create index partner_users_by_role on partner_users (role_id);
select protect_table('partner_users', 'partner_id = (select app_partner_id())');
create trigger partner_users_access after insert or update or delete on partner_users
  for each row execute function announce_access_change('person', 'user_id');

create table organization_users (
  org_id uuid not null references organizations (id),
  user_id uuid not null references users (id) on delete cascade,
  role_id uuid not null references roles (id),
  created_at timestamptz(3) not null default now(),
  primary key (org_id, user_id)
);
create unique index organization_users_user_key on organization_users (user_id);
create index organization_users_by_role on organization_users (role_id);
select protect_table('organization_users', 'org_id = any((select app_org_ids())::uuid[])');
create trigger organization_users_access after insert or update or delete on organization_users
  for each row execute function announce_access_change('person', 'user_id');

-- The policies of users and roles name the tables of memberships, so they come after these.
select protect_table('users',
  'id = (select app_user_id()) or id in (select user_id from partner_users)
    or id in (select user_id from organization_users)');
-- An organization sees the roles of its partner that its own people hold; only the owner of a role removes it.
select protect_table('roles',
  '(partner_id is null and org_id is null) or partner_id = (select app_partner_id())
    or org_id = any((select app_org_ids())::uuid[]) or id in (select role_id from organization_users)',
  'partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[])');
create policy own_only on roles as restrictive for delete to svc_app
  using (partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[]));

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
  -- The provider that a session was opened with; null where it was opened by password.
  sso_provider_id uuid,
  -- The provider has reported a second factor. It counts for as long as the provider is trusted with that.
  mfa_by_provider boolean not null default false,
  ip_address varchar(45),
  user_agent text
);
create index sessions_by_user on sessions (user_id) where revoked_at is null;
create index sessions_by_end on sessions (least(revoked_at, expires_at));
create index sessions_by_sso_provider on sessions (sso_provider_id) where sso_provider_id is not null;
-- People see and end their own sessions; the administrators of people end theirs when they disable or remove them.
select protect_table('sessions', null);
create policy tenant on sessions to svc_app
  using (user_id = (select app_user_id()) or user_id in (select user_id from partner_users)
    or user_id in (select user_id from organization_users));
grant select, update on sessions to svc_app;
-- Each server that has read a session knows when it expires, so that end is not announced.
create trigger sessions_access after update of revoked_at on sessions
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function announce_access_change('session', 'id');
create trigger sessions_access_ended after delete on sessions
  for each row when (old.revoked_at is null and old.expires_at > now())
  execute function announce_access_change('session', 'id');

create table refresh_tokens (
  token_hash char(64) primary key,
  session_id uuid not null references sessions (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  used_at timestamptz(3)
);
create index refresh_tokens_by_session on refresh_tokens (session_id);
-- Found by the holder's secret alone, before the tenant is known.
select protect_table('refresh_tokens', null);

create table password_resets (
  token_hash char(64) primary key,
  user_id uuid not null references users (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index password_resets_by_user on password_resets (user_id);
create index password_resets_by_end on password_resets (expires_at);
-- Found by the holder's secret alone. A person who changes the password withdraws the links that were asked for before.
select protect_table('password_resets', null);
create policy tenant on password_resets to svc_app using (user_id = (select app_user_id()));
grant select, delete on password_resets to svc_app;

-- The second factor of a person. While `enabled_at` is null, the person has begun to set it up and still signs in
-- without it.
create table user_mfa (
  user_id uuid primary key references users (id) on delete cascade,
  secret text not null,
  recovery_salt char(32) not null,
  enabled_at timestamptz(3),
  -- The newest time step whose code was taken: each code opens once.
  last_step bigint not null default 0,
  tries integer not null default 0,
  tries_since timestamptz(3) not null default now(),
  created_at timestamptz(3) not null default now()
);
select protect_table('user_mfa', 'user_id = (select app_user_id())');

create table mfa_recovery_codes (
  user_id uuid not null references user_mfa (user_id) on delete cascade,
  code_hash char(64) not null,
  used_at timestamptz(3),
  primary key (user_id, code_hash)
);
select protect_table('mfa_recovery_codes', 'user_id = (select app_user_id())');

-- A sign-in whose password was right and whose second factor is still to come.
create table mfa_challenges (
  token_hash char(64) primary key,
  user_id uuid not null references users (id) on delete cascade,
  -- The invitation that the sign-in accepts, kept while the second factor is awaited.
  invitation_token_hash char(64),
  tries integer not null default 0,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  used_at timestamptz(3)
);
create index mfa_challenges_by_user on mfa_challenges (user_id);
create index mfa_challenges_by_end on mfa_challenges (expires_at);
-- Found by the holder's secret alone, before anyone is signed in. A person who changes the password ends what was begun
-- with the old one.
select protect_table('mfa_challenges', null);
create policy tenant on mfa_challenges to svc_app using (user_id = (select app_user_id()));
grant select, delete on mfa_challenges to svc_app;

-- What ends with a person (docs/security.md, "What ends with what"): links to a new password, and sign-ins that lack
-- the second factor, do not wait until the person is enabled again, or is a member of another tenant.
create function end_open_links() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
  person uuid := case when tg_op = 'DELETE' then to_jsonb(old) ->> 'user_id' else to_jsonb(new) ->> 'id' end;
begin
  delete from password_resets where user_id = person;
  delete from mfa_challenges where user_id = person;
  return null;
end
$$;
revoke execute on function end_open_links() from public;
create trigger users_links_end after update of status on users
  for each row when (old.status is distinct from new.status and new.status <> 'active')
  execute function end_open_links();
create trigger system_users_links_end after delete on system_users
  for each row execute function end_open_links();
create trigger partner_users_links_end after delete on partner_users
  for each row execute function end_open_links();
create trigger organization_users_links_end after delete on organization_users
  for each row execute function end_open_links();

create table api_keys (
  id uuid primary key,
  -- Null: every organization of the person who created it.
  org_id uuid references organizations (id),
  created_by uuid not null references users (id) on delete cascade,
  name varchar(255) not null,
  key_hash char(64) not null unique,
  key_prefix varchar(16) not null,
  scopes text[] not null,
  rate_limit integer not null check (rate_limit > 0),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  usage_count bigint not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create index api_keys_by_org on api_keys (org_id, created_at desc, id);
create index api_keys_by_creator on api_keys (created_by, created_at desc, id);
-- A key without an organization belongs to the tenant of the person who created it, which the policy of users decides.
select protect_table('api_keys',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and created_by in (select id from users))');
create trigger api_keys_access
  after update of key_hash, scopes, org_id, created_by, rate_limit, expires_at, revoked_at on api_keys
  for each row when (
    (old.key_hash, old.scopes, old.org_id, old.created_by, old.rate_limit, old.expires_at, old.revoked_at)
    is distinct from
    (new.key_hash, new.scopes, new.org_id, new.created_by, new.rate_limit, new.expires_at, new.revoked_at))
  execute function announce_access_change('api_key', 'id');
create trigger api_keys_access_ended after delete on api_keys
  for each row execute function announce_access_change('api_key', 'id');

-- An invitation is a row of its own: neither an account nor a membership exists because of it. Several tenants may have
-- one for the same address, and the first that is accepted counts (docs/decisions/verified-addresses.md).
create table membership_invitations (
  -- Becomes the id of the account, where acceptance makes one.
  id uuid primary key,
  email varchar(255) not null,
  name varchar(255) not null,
  -- Both null: into the system.
  partner_id uuid references partners (id),
  org_id uuid references organizations (id),
  role_id uuid not null references roles (id) on delete cascade,
  org_access text not null default 'none' check (org_access in ('all', 'selected', 'none')),
  org_ids uuid[] not null default '{}',
  suspended boolean not null default false,
  -- The inviter is shown one link and can pass it on. The other is in the mail alone, and so proves the address.
  link_token_hash char(64) not null unique,
  mail_token_hash char(64) not null unique,
  invited_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  check (partner_id is null or org_id is null)
);
create unique index membership_invitations_place_key on membership_invitations
  (lower(email), coalesce(partner_id, org_id, '00000000-0000-0000-0000-000000000000'));
create index membership_invitations_by_partner on membership_invitations (partner_id) where partner_id is not null;
create index membership_invitations_by_org on membership_invitations (org_id) where org_id is not null;
create index membership_invitations_by_role on membership_invitations (role_id);
create index membership_invitations_by_end on membership_invitations (expires_at);
select protect_table('membership_invitations',
  'partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[])');

-- A caller with some of the organizations does not see every person who holds a role. An invitation holds its role too,
-- as long as it can be accepted.
create function role_in_use(wanted uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (select from system_users where role_id = wanted)
    or exists (select from partner_users where role_id = wanted)
    or exists (select from organization_users where role_id = wanted)
    or exists (select from membership_invitations where role_id = wanted and expires_at > now())
$$;
revoke execute on function role_in_use(uuid) from public;
grant execute on function role_in_use(uuid) to svc_app, svc_system;

-- Registrations that are not confirmed yet, with the token that was mailed and the password that was chosen.
create table registrations (
  token_hash char(64) primary key,
  email varchar(255) not null,
  name varchar(255) not null,
  password_hash text not null,
  -- A provider that is made with the account, on confirmation.
  company_name varchar(255),
  -- The first administrator of a provider that has been made already, whose address this confirms.
  user_id uuid references users (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index registrations_by_user on registrations (user_id) where user_id is not null;
create index registrations_by_end on registrations (expires_at);
-- Found by the holder's secret alone, before anyone is signed in.
select protect_table('registrations', null);

-- An earlier form of invitations, for which the membership existed before it was accepted. No code writes it any more.
create table invitations (
  user_id uuid primary key references users (id) on delete cascade,
  partner_id uuid,
  org_id uuid,
  token_hash char(64) not null unique,
  invited_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  check (partner_id is null or org_id is null),
  foreign key (partner_id, user_id) references partner_users (partner_id, user_id) on delete cascade,
  foreign key (org_id, user_id) references organization_users (org_id, user_id) on delete cascade
);
create index invitations_by_org on invitations (org_id) where org_id is not null;
select protect_table('invitations',
  'partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[])');

-- The account behind an address, created if there is none. A tenant neither sees an account without a membership nor
-- may create one. The account stays locked until the transaction has written the membership. taken: the account is a
-- member of some tenant already, and stays as it is.
create function account_for_invitation(new_id uuid, wanted_email text, wanted_name text)
returns table (account_id uuid, taken boolean)
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
  insert into users (id, email, name, status) values (new_id, wanted_email, wanted_name, 'invited')
    on conflict (lower(email)) do nothing;
  select id into account_id from users where lower(email) = lower(wanted_email) for update;
  taken := exists (select from system_users where user_id = account_id)
    or exists (select from partner_users where user_id = account_id)
    or exists (select from organization_users where user_id = account_id);
  if not taken then
    update users set status = case when password_hash is null then 'invited' else 'active' end, updated_at = now()
      where id = account_id;
  end if;
  return next;
end
$$;
revoke execute on function account_for_invitation(uuid, text, text) from public;
grant execute on function account_for_invitation(uuid, text, text) to svc_app, svc_system;

-- The first answer to a request that its sender may have to send again (SHAPES 1): a request with the same key has no
-- second effect.
create table idempotency_keys (
  user_id uuid not null references users (id) on delete cascade,
  key varchar(255) not null,
  request_hash char(64) not null,
  answer jsonb,
  created_at timestamptz(3) not null default now(),
  primary key (user_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);
select protect_table('idempotency_keys', 'user_id = (select app_user_id())');

-- Each request has to know the rights of its caller before it knows the tenant. The two functions below answer that in
-- one round trip, as svc_system, and in PL/pgSQL, which keeps the plan as long as the connection lives.

-- A person's present membership and rights. No row: disabled, a member of nothing, or of something that is deleted.
create function person_holder(wanted uuid) returns table (
  user_id uuid, email varchar, name varchar, mfa_enabled boolean, scope text, role_id uuid, role_name varchar,
  permissions text[], partner_id uuid, partner_status text, org_id uuid, org_access text, selected_org_ids uuid[],
  ip_allowlist jsonb
)
language plpgsql stable security definer set search_path = pg_catalog, public as $$
#variable_conflict use_column
begin
  return query
  select u.id, u.email, u.name, u.mfa_enabled, r.scope, r.id, r.name, r.permissions, p.id, p.status, o.id,
    pu.org_access,
    case when pu.org_access = 'selected' then
      array(select id from organizations where partner_id = p.id and id = any(pu.org_ids) and deleted_at is null)
    end,
    case when pu.user_id is not null then p.settings #> '{security,ipAllowlist}' end
  from users u
  -- A person belongs to one scope; were there more, the widest would count.
  left join system_users su on su.user_id = u.id
  left join partner_users pu on pu.user_id = u.id and su.user_id is null
  left join organization_users ou on ou.user_id = u.id and su.user_id is null and pu.user_id is null
  left join organizations o on o.id = ou.org_id and o.deleted_at is null
  left join partners p on p.id = coalesce(pu.partner_id, o.partner_id) and p.deleted_at is null
  join roles r on r.id = coalesce(su.role_id, pu.role_id, ou.role_id)
  where u.id = wanted and u.status = 'active' and (su.user_id is not null or p.id is not null);
end
$$;
revoke execute on function person_holder(uuid) from public;
grant execute on function person_holder(uuid) to svc_app, svc_system;

-- The same for the person who opened a session; no row also where the session has ended. A provider that is off opens
-- nothing, also where a session was stored in the moment in which it was switched off.
create function session_holder(wanted uuid) returns table (
  mfa boolean, user_id uuid, email varchar, name varchar, mfa_enabled boolean, scope text, role_id uuid,
  role_name varchar, permissions text[], partner_id uuid, partner_status text, org_id uuid, org_access text,
  selected_org_ids uuid[], ip_allowlist jsonb
)
language plpgsql stable security definer set search_path = pg_catalog, public as $$
#variable_conflict use_column
begin
  return query
  select (s.mfa and h.mfa_enabled) or (s.mfa_by_provider and coalesce(p.trusts_idp_mfa, false)), h.*
  from sessions s cross join lateral person_holder(s.user_id) h
    left join sso_providers p on p.id = s.sso_provider_id
  where s.id = wanted and s.revoked_at is null and s.expires_at > now()
    and (s.sso_provider_id is null or p.status = 'active');
end
$$;
revoke execute on function session_holder(uuid) from public;
grant execute on function session_holder(uuid) to svc_app, svc_system;

-- Whether a person has permissions in organizations now. `in_orgs` null: in the partner as a whole.
create function person_still_holds(wanted uuid, in_partner uuid, in_orgs uuid[], needed text[]) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (
    select from person_holder(wanted) h
    where (h.partner_status is null or h.partner_status = 'active')
      and (
        h.scope = 'system'
        or (h.scope = 'organization' and in_orgs = array[h.org_id])
        or (h.scope = 'partner' and h.partner_id = in_partner
          and (h.org_access = 'all' or in_orgs <@ coalesce(h.selected_org_ids, '{}'))))
      and not exists (
        select from unnest(needed) n
        where not h.permissions && array[n, split_part(n, ':', 1) || ':*', '*:*']))
$$;
revoke execute on function person_still_holds(uuid, uuid, uuid[], text[]) from public;
grant execute on function person_still_holds(uuid, uuid, uuid[], text[]) to svc_system;

-- The roles that every deployment has. Their ids are fixed so that code and later migrations can name them.
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

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function end_open_links() owner to svc_system;
alter function role_in_use(uuid) owner to svc_system;
alter function account_for_invitation(uuid, text, text) owner to svc_system;
alter function person_holder(uuid) owner to svc_system;
alter function session_holder(uuid) owner to svc_system;
alter function person_still_holds(uuid, uuid, uuid[], text[]) owner to svc_system;
revoke create on schema public from svc_system;
