-- Single sign-on (SPEC 2.11 to 2.14, 4.8, SHAPES 9).

create table sso_providers (
  id uuid primary key,
  org_id uuid references organizations (id),
  partner_id uuid references partners (id),
  name varchar(255) not null,
  type text not null check (type in ('oidc', 'saml')),
  status text not null default 'inactive' check (status in ('inactive', 'testing', 'active')),
  preset varchar(50),
  -- OpenID Connect.
  issuer varchar(500),
  client_id varchar(255),
  -- Sealed.
  client_secret text,
  token_auth_method text not null default 'client_secret_basic'
    check (token_auth_method in ('client_secret_basic', 'client_secret_post')),
  scopes varchar(500) not null default 'openid profile email',
  authorization_url varchar(500),
  token_url varchar(500),
  userinfo_url varchar(500),
  jwks_url varchar(500),
  -- The discovery document says that each answer names its issuer (RFC 9207).
  sends_issuer boolean not null default false,
  -- SAML. Several certificates in PEM form, one after the other, while the identity provider changes its key.
  entity_id varchar(500),
  sso_url varchar(500),
  certificate text,
  attribute_mapping jsonb not null,
  auto_provision boolean not null default true,
  default_role_id uuid references roles (id) on delete set null,
  -- The person whose permissions have to cover the default role, at each new account again.
  default_role_configured_by uuid references users (id) on delete set null,
  -- The permissions of the person who has configured the provider last. A first sign-in opens no account with more.
  -- Null: it was configured before this was noted.
  configured_permissions text[],
  -- Lower case, separated by commas. Empty: all.
  allowed_domains text not null default '',
  enforce_sso boolean not null default false,
  -- Whether a second factor that the identity provider reports counts as one of ours.
  trusts_idp_mfa boolean not null default false,
  -- People who may sign in by password although single sign-on is enforced.
  break_glass_user_ids uuid[] not null default '{}',
  -- Raised by each change: a sign-in that is under way ends.
  config_version integer not null default 1,
  -- The last sign-in with the present identity provider; null after a change of which one it is.
  last_success_at timestamptz(3),
  discovery_failures integer not null default 0,
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint sso_providers_one_owner check ((org_id is null) <> (partner_id is null))
);
create index sso_providers_by_org on sso_providers (org_id, created_at, id) where org_id is not null;
create index sso_providers_by_partner on sso_providers (partner_id, created_at, id) where partner_id is not null;
create index sso_providers_by_default_role on sso_providers (default_role_id) where default_role_id is not null;
select protect_table('sso_providers',
  'org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_id())');
-- A second factor of a provider stops counting when the provider does, or is not trusted with it any more
-- (docs/decisions/access-changes.md).
create trigger sso_providers_access_of_organization after update of status, trusts_idp_mfa on sso_providers
  for each row when (
    new.org_id is not null and (old.status, old.trusts_idp_mfa) is distinct from (new.status, new.trusts_idp_mfa))
  execute function announce_access_change('organization', 'org_id');
create trigger sso_providers_access_of_partner after update of status, trusts_idp_mfa on sso_providers
  for each row when (
    new.partner_id is not null and (old.status, old.trusts_idp_mfa) is distinct from (new.status, new.trusts_idp_mfa))
  execute function announce_access_change('partner', 'partner_id');
create trigger sso_providers_access_of_organization_ended after delete on sso_providers
  for each row when (old.org_id is not null)
  execute function announce_access_change('organization', 'org_id');
create trigger sso_providers_access_of_partner_ended after delete on sso_providers
  for each row when (old.partner_id is not null)
  execute function announce_access_change('partner', 'partner_id');

-- What an identity provider has opened ends with it (docs/security.md, "What ends with what"). In the database, so that
-- it also happens where an operator changes a row by hand. The sessions are announced by their own trigger. Links and
-- sessions of another identity provider are about other people: subjects are only unique within one.
create function end_sessions_of_provider() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
  update sessions set revoked_at = now(), revoked_reason = 'identity_provider_ended'
  where sso_provider_id = old.id and revoked_at is null;
  if tg_op = 'DELETE' then
    return old;
  end if;
  if (old.issuer, old.entity_id) is distinct from (new.issuer, new.entity_id) then
    delete from user_sso_identities where provider_id = old.id;
  end if;
  return new;
end
$$;
revoke execute on function end_sessions_of_provider() from public;
create trigger sso_providers_sessions_ended before delete on sso_providers
  for each row execute function end_sessions_of_provider();
create trigger sso_providers_sessions_end before update of status, issuer, entity_id on sso_providers
  for each row when (
    (old.status = 'active' and new.status <> 'active')
    or (old.issuer, old.entity_id) is distinct from (new.issuer, new.entity_id))
  execute function end_sessions_of_provider();

-- The sessions were created before the providers.
alter table sessions add constraint sessions_sso_provider_fkey
  foreign key (sso_provider_id) references sso_providers (id) on delete set null;

create table user_sso_identities (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  provider_id uuid not null references sso_providers (id) on delete cascade,
  -- `sub` of OpenID Connect, NameID of SAML.
  external_id varchar(255) not null,
  email varchar(255),
  profile jsonb not null,
  -- Sealed.
  access_token text,
  refresh_token text,
  token_expires_at timestamptz(3),
  last_login_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (provider_id, external_id),
  unique (user_id, provider_id)
);
-- Everyone sees and removes their own links; sign-ins, which work across tenants, make them.
select protect_table('user_sso_identities', 'user_id = (select app_user_id())', null, 'select, delete');
grant insert, update, delete on user_sso_identities to svc_system;

-- Sign-ins under way. Found by the browser's state alone, before the person is known.
create table sso_sessions (
  id uuid primary key,
  provider_id uuid not null references sso_providers (id) on delete cascade,
  -- Of the provider when the sign-in began.
  provider_version integer,
  state varchar(64) not null unique,
  -- OpenID Connect: the nonce. SAML: the ID of the AuthnRequest.
  nonce varchar(64) not null,
  code_verifier varchar(128),
  redirect_url varchar(500),
  -- Of a person who links an identity to their account: the session that they are signed in with.
  link_session_id uuid references sessions (id) on delete cascade,
  -- SAML: the answer, between the identity provider's form and the callback, where the browser sends its cookie.
  saml_response text,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now()
);
create index sso_sessions_by_provider on sso_sessions (provider_id);
create index sso_sessions_by_link_session on sso_sessions (link_session_id) where link_session_id is not null;
create index sso_sessions_by_end on sso_sessions (expires_at);
select protect_table('sso_sessions', null);

-- What the dashboard exchanges for tokens after a sign-in.
create table sso_exchange_codes (
  code_hash char(64) primary key,
  session_id uuid not null references sessions (id) on delete cascade,
  -- SHA-256 of the cookie of the browser that came back from the identity provider. Null: a link for any browser.
  browser_hash char(64),
  -- Sealed.
  refresh_token text not null,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now()
);
create index sso_exchange_codes_by_session on sso_exchange_codes (session_id);
create index sso_exchange_codes_by_end on sso_exchange_codes (expires_at);
select protect_table('sso_exchange_codes', null);

-- SAML assertions that were used, until they are no longer valid anyway.
create table saml_used_assertions (
  provider_id uuid not null references sso_providers (id) on delete cascade,
  -- SHA-256 of the assertion's ID, which may be of any length.
  assertion_hash char(64) not null,
  expires_at timestamptz(3) not null,
  primary key (provider_id, assertion_hash)
);
create index saml_used_assertions_by_end on saml_used_assertions (expires_at);
select protect_table('saml_used_assertions', null);

-- Mail domains that an organization has proved to own.
create table sso_domains (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  -- Lower case, in its ASCII form.
  domain varchar(253) not null check (domain = lower(domain)),
  status text not null default 'pending' check (status in ('pending', 'verified')),
  -- What the TXT record has to say.
  token varchar(64) not null,
  verified_at timestamptz(3) check ((verified_at is null) = (status = 'pending')),
  -- Since when the daily check does not find the record of a verified domain.
  failing_since timestamptz(3) check (failing_since is null or status = 'verified'),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, domain)
);
-- One organization owns a domain; any number may have begun to prove it.
create unique index sso_domains_verified_key on sso_domains (domain) where status = 'verified';
select protect_table('sso_domains', 'org_id = any((select app_org_ids())::uuid[])');

create table partner_login_branding (
  partner_id uuid primary key references partners (id),
  -- An HTTPS URL, or a data: URI of PNG, JPEG or WebP.
  logo_url text,
  accent_color varchar(7) check (accent_color ~ '^#[0-9a-f]{6}$'),
  headline varchar(120),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
select protect_table('partner_login_branding', 'partner_id = (select app_partner_id())');

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function end_sessions_of_provider() owner to svc_system;
revoke create on schema public from svc_system;
