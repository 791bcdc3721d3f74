-- The open alerts of a device that moves to another organization leave the conversations of the one, and are new to the
-- other. The key to `devices` changes them, so this is a statement for all alerts of the device.
create function notification_alerts_moved() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into notification_outbox (id, org_id, alert_id, change)
  select new_row_id(), c.org_id, c.id, case c.status when 'active' then 'raised' else c.status end
  from changed c join former f on f.id = c.id
  join organizations o on o.id = c.org_id and o.deleted_at is null
  where c.org_id <> f.org_id and c.status <> 'resolved' and (
    exists (
      select from notification_policies p where p.partner_id = o.partner_id and (p.org_id is null or p.org_id = o.id)
        and p.enabled)
    or exists (
      select from notification_group_alerts ga join notification_groups g on g.id = ga.group_id
      where ga.alert_id = c.id and g.state <> 'closed'));
  return null;
end
$$;
revoke execute on function notification_alerts_moved() from public;
grant create on schema public to svc_system;
alter function notification_alerts_moved() owner to svc_system;
revoke create on schema public from svc_system;

create trigger alerts_notifications_moved after update on alerts
  referencing old table as former new table as changed for each statement execute function notification_alerts_moved();
