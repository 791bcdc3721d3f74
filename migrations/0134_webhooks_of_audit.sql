-- Events of the audit trail for webhooks, when an entry is sealed. A file of its own, because `audit_logs` is a big table.
-- Entries are sealed by the hundred, so one statement looks for all of a batch who wants them. Addresses, details and
-- e-mail addresses are left out.

create function webhook_audit_sealed() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  if not exists (select from webhooks where enabled and 'audit.recorded' = any(event_types)) then
    return null;
  end if;
  insert into webhook_events (id, partner_id, org_id, type, data)
  select new_row_id(), owner.partner_id, a.org_id, 'audit.recorded', jsonb_build_object(
      'entryId', a.id, 'action', a.action, 'result', a.result, 'actorType', a.actor_type, 'actorId', a.actor_id,
      'resourceType', a.resource_type, 'resourceId', a.resource_id, 'resourceName', a.resource_name,
      'recordedAt', webhook_time(a."timestamp"))
  from added a
  join lateral (
    select o.partner_id from organizations o where o.id = a.org_id and o.deleted_at is null
    union all
    select a.partner_id where a.org_id is null and a.partner_id is not null
  ) owner on exists (
    select from webhooks w where w.partner_id = owner.partner_id and (w.org_id is null or w.org_id = a.org_id)
      and w.enabled and 'audit.recorded' = any(w.event_types))
  order by a.seq;
  return null;
end
$$;
revoke execute on function webhook_audit_sealed() from public;
grant create on schema public to svc_system;
alter function webhook_audit_sealed() owner to svc_system;
revoke create on schema public from svc_system;
create trigger audit_logs_webhooks after insert on audit_logs
  referencing new table as added for each statement execute function webhook_audit_sealed();
