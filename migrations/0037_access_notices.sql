-- Every server remembers for a while who may do what: the callers behind open dashboard sockets, the verdicts on agent
-- tokens. Each change of a row that such a verdict is made of is announced here, in the transaction of the change, to
-- all servers: no service function can forget it, it is not lost between the commit and the announcement, and it needs
-- no Redis. The servers listen on the channel `muster_access` (docs/decisions/access-changes.md).

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

create trigger users_access after update of status on users
  for each row when (old.status is distinct from new.status)
  execute function announce_access_change('person', 'id');
create trigger users_access_ended after delete on users
  for each row execute function announce_access_change('person', 'id');

-- The end of its time is known beforehand to whoever has looked it up, and needs no announcement.
create trigger sessions_access after update of revoked_at on sessions
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function announce_access_change('session', 'id');
create trigger sessions_access_ended after delete on sessions
  for each row when (old.revoked_at is null and old.expires_at > now())
  execute function announce_access_change('session', 'id');

-- Whatever is added to a membership later, such as its state, is announced as well.
create trigger system_users_access after insert or update or delete on system_users
  for each row execute function announce_access_change('person', 'user_id');
create trigger partner_users_access after insert or update or delete on partner_users
  for each row execute function announce_access_change('person', 'user_id');
create trigger organization_users_access after insert or update or delete on organization_users
  for each row execute function announce_access_change('person', 'user_id');

-- A role that somebody holds cannot be deleted.
create trigger roles_access after update of permissions, scope on roles
  for each row when (old.permissions is distinct from new.permissions or old.scope is distinct from new.scope)
  execute function announce_access_change('role', 'id');

create trigger api_keys_access
  after update of key_hash, scopes, org_id, created_by, rate_limit, expires_at, revoked_at on api_keys
  for each row when (
    (old.key_hash, old.scopes, old.org_id, old.created_by, old.rate_limit, old.expires_at, old.revoked_at)
    is distinct from
    (new.key_hash, new.scopes, new.org_id, new.created_by, new.rate_limit, new.expires_at, new.revoked_at))
  execute function announce_access_change('api_key', 'id');
create trigger api_keys_access_ended after delete on api_keys
  for each row execute function announce_access_change('api_key', 'id');

create trigger partners_access after update of status, deleted_at, settings on partners
  for each row when (
    (old.status, old.deleted_at, old.settings #> '{security,ipAllowlist}') is distinct from
    (new.status, new.deleted_at, new.settings #> '{security,ipAllowlist}'))
  execute function announce_access_change('partner', 'id');

create trigger organizations_access after update of status, deleted_at, partner_id on organizations
  for each row when (
    (old.status, old.deleted_at, old.partner_id) is distinct from (new.status, new.deleted_at, new.partner_id))
  execute function announce_access_change('organization', 'id');

-- A device that is decommissioned loses its tokens, one that moves to another organization takes them along.
create trigger agent_credentials_access after update of revoked_at, org_id on agent_credentials
  for each row when ((old.revoked_at, old.org_id) is distinct from (new.revoked_at, new.org_id))
  execute function announce_access_change('agent', 'device_id');
create trigger agent_credentials_access_ended after delete on agent_credentials
  for each row when (old.revoked_at is null)
  execute function announce_access_change('agent', 'device_id');
