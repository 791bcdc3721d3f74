-- Roles of one's own, invitations, and passwords that are changed or forgotten (SHAPES 4).

-- An organization sees the roles of its partner that its own people hold; nobody but the owner of a role removes it.
drop policy tenant on roles;
create policy tenant on roles to svc_app
  using ((partner_id is null and org_id is null) or partner_id = (select app_partner_id())
    or org_id = any((select app_org_ids())::uuid[]) or id in (select role_id from organization_users))
  with check (partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[]));
create policy own_only on roles as restrictive for delete to svc_app
  using (partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[]));
create index roles_by_partner on roles (partner_id) where partner_id is not null;

create index partner_users_by_role on partner_users (role_id);
create index organization_users_by_role on organization_users (role_id);

-- People see and end their own sessions; who looks after people ends theirs when they are disabled or removed.
create policy tenant on sessions to svc_app
  using (user_id = (select app_user_id()) or user_id in (select user_id from partner_users)
    or user_id in (select user_id from organization_users));
grant select, update on sessions to svc_app;

-- At most one invitation a person, and it dies with the membership that it is for.
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

create table password_resets (
  token_hash char(64) primary key,
  user_id uuid not null references users (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index password_resets_by_user on password_resets (user_id);

select protect_table('invitations', 'partner_id = (select app_partner_id()) or org_id = any((select app_org_ids())::uuid[])');
-- Who changes the password withdraws the links that were asked for before.
select protect_table('password_resets', null);
create policy tenant on password_resets to svc_app using (user_id = (select app_user_id()));
grant select, delete on password_resets to svc_app;

-- The account behind an address, made if there is none. A tenant cannot see accounts that are nobody's yet, nor make
-- one that it could not see; this is its way to one, and it locks the account until the membership is written.
-- taken: it belongs to someone already, and stays as it is.
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

-- A caller with a part of the organizations does not see everyone who holds a role.
create function role_in_use(wanted uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (select from system_users where role_id = wanted)
    or exists (select from partner_users where role_id = wanted)
    or exists (select from organization_users where role_id = wanted)
$$;

revoke execute on function account_for_invitation(uuid, text, text) from public;
revoke execute on function role_in_use(uuid) from public;
grant execute on function account_for_invitation(uuid, text, text) to svc_app, svc_system;
grant execute on function role_in_use(uuid) to svc_app, svc_system;
grant create on schema public to svc_system;
alter function account_for_invitation(uuid, text, text) owner to svc_system;
alter function role_in_use(uuid) owner to svc_system;
revoke create on schema public from svc_system;
