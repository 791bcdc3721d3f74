-- How agents of an organization are upgraded depends on its partner's settings, of which its members may read nothing else.
-- Who may ask for which partner is decided by what the caller can see of organizations.
create function partner_agent_updates(wanted uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, public as $$
  select settings -> 'agentUpdates' from partners where id = wanted
$$;

grant create on schema public to svc_system;
alter function partner_agent_updates(uuid) owner to svc_system;
revoke create on schema public from svc_system;
