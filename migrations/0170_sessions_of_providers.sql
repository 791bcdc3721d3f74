-- What an identity provider has opened ends with it (docs/security.md, "What ends with what").

alter table sso_providers
  -- The permissions of whoever has configured the provider last. A first sign-in opens no account with more. Null: it
  -- was configured before this was noted.
  add column configured_permissions text[];

alter table sso_exchange_codes
  -- SHA-256 of the cookie of the browser that came back from the identity provider. Null: a link for any browser.
  add column browser_hash char(64);

-- In the database, so that it also happens where an operator changes a row by hand. The sessions are announced by their
-- own trigger. Links and sessions of another identity provider are about other people: subjects are only unique within
-- one.
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
grant create on schema public to svc_system;
alter function end_sessions_of_provider() owner to svc_system;
revoke create on schema public from svc_system;
revoke execute on function end_sessions_of_provider() from public;
grant delete on user_sso_identities to svc_system;

create trigger sso_providers_sessions_ended before delete on sso_providers
  for each row execute function end_sessions_of_provider();
create trigger sso_providers_sessions_end before update of status, issuer, entity_id on sso_providers
  for each row when (
    (old.status = 'active' and new.status <> 'active')
    or (old.issuer, old.entity_id) is distinct from (new.issuer, new.entity_id))
  execute function end_sessions_of_provider();

-- A provider that is off opens nothing, also where a session was stored in the moment in which it was switched off.
grant create on schema public to svc_system;
set local role svc_system;
create or replace function session_holder(wanted uuid) returns table (
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
-- White space around the NameID was stored with it.
update user_sso_identities i set external_id = btrim(external_id, E' \t\n\r')
where external_id <> btrim(external_id, E' \t\n\r') and btrim(external_id, E' \t\n\r') <> ''
  and not exists (
    select from user_sso_identities o
    where o.provider_id = i.provider_id and o.external_id = btrim(i.external_id, E' \t\n\r'));
reset role;
revoke create on schema public from svc_system;
