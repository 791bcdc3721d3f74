-- Who is calling is asked on every request, before anyone knows whose tenant it is. These two answer it in one round
-- trip, as svc_system, and in plpgsql, which keeps the plan as long as the connection lives.

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

-- The same for the person who opened a session; no row also where the session has ended.
create function session_holder(wanted uuid) returns table (
  mfa boolean, user_id uuid, email varchar, name varchar, mfa_enabled boolean, scope text, role_id uuid,
  role_name varchar, permissions text[], partner_id uuid, partner_status text, org_id uuid, org_access text,
  selected_org_ids uuid[], ip_allowlist jsonb
)
language plpgsql stable security definer set search_path = pg_catalog, public as $$
#variable_conflict use_column
begin
  return query
  select s.mfa and h.mfa_enabled, h.*
  from sessions s cross join lateral person_holder(s.user_id) h
  where s.id = wanted and s.revoked_at is null and s.expires_at > now();
end
$$;

grant create on schema public to svc_system;
alter function person_holder(uuid) owner to svc_system;
alter function session_holder(uuid) owner to svc_system;
revoke create on schema public from svc_system;
revoke execute on function person_holder(uuid), session_holder(uuid) from public;
grant execute on function person_holder(uuid), session_holder(uuid) to svc_app, svc_system;
