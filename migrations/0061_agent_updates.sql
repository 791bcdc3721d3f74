-- How agents of an organization are upgraded depends on its partner's settings, of which its members may read nothing else.
create function partner_agent_updates(wanted uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, public as $$
  select p.settings -> 'agentUpdates' from partners p
  where p.id = wanted
    and exists (select from organizations o where o.partner_id = p.id and o.id = any((select app_org_ids())::uuid[]))
$$;

revoke execute on function partner_agent_updates(uuid) from public;
grant execute on function partner_agent_updates(uuid) to svc_app, svc_system;
grant create on schema public to svc_system;
alter function partner_agent_updates(uuid) owner to svc_system;
revoke create on schema public from svc_system;
