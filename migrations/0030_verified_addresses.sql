-- An address belongs to whoever has proved to read its mail, and an invitation takes nothing until it is accepted
-- (docs/decisions/verified-addresses.md).

-- Null: nobody has proved yet that the account is theirs whose address it bears.
alter table users add column email_verified_at timestamptz(3);

-- An invitation is a row of its own: neither an account nor a membership exists because of it. Several tenants may have
-- one for the same address, and the first that is accepted counts.
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

-- What somebody registered and has yet to confirm, with the token that was mailed and the password that they chose.
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

-- The invitation that a sign-in accepts, kept while the second factor is awaited.
alter table mfa_challenges add column invitation_token_hash char(64);

set local role svc_system;

-- Who has signed in as a member has accepted an invitation that was mailed, or was made by the operator. An invitation
-- that is still open was never accepted, whoever has signed in meanwhile.
update users u set email_verified_at = coalesce(u.last_login_at, u.created_at)
where (u.last_login_at is not null or exists (select from system_users s where s.user_id = u.id))
  and not exists (select from invitations i where i.user_id = u.id);

-- Memberships that nobody has accepted become invitations. Their old link was known to the inviter, so it proves no
-- address; no link of the other kind exists until the invitation is sent again.
insert into membership_invitations (id, email, name, partner_id, org_id, role_id, org_access, org_ids, suspended,
  link_token_hash, mail_token_hash, invited_by, created_at, expires_at)
select case when u.password_hash is null then u.id else new_row_id() end, u.email, u.name, i.partner_id, i.org_id,
  coalesce(p.role_id, o.role_id, s.role_id), coalesce(p.org_access, 'none'), coalesce(p.org_ids, '{}'),
  u.status = 'disabled', i.token_hash, encode(sha256(uuid_send(gen_random_uuid())), 'hex'), i.invited_by, i.created_at,
  i.expires_at
from invitations i
join users u on u.id = i.user_id
left join partner_users p on p.partner_id = i.partner_id and p.user_id = i.user_id
left join organization_users o on o.org_id = i.org_id and o.user_id = i.user_id
left join system_users s on s.user_id = i.user_id and i.partner_id is null and i.org_id is null;

delete from system_users s using invitations i
  where i.user_id = s.user_id and i.partner_id is null and i.org_id is null;
delete from partner_users p using invitations i where i.user_id = p.user_id and i.partner_id = p.partner_id;
delete from organization_users o using invitations i where i.user_id = o.user_id and i.org_id = o.org_id;
-- Accounts that only those invitations had made.
delete from users u using membership_invitations m where m.id = u.id and u.password_hash is null;

reset role;

-- An invitation holds its role too, as long as it can be accepted.
grant create on schema public to svc_system;
set local role svc_system;
create or replace function role_in_use(wanted uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (select from system_users where role_id = wanted)
    or exists (select from partner_users where role_id = wanted)
    or exists (select from organization_users where role_id = wanted)
    or exists (select from membership_invitations where role_id = wanted and expires_at > now())
$$;
reset role;
revoke create on schema public from svc_system;
