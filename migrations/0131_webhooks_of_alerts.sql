-- Events of alerts for webhooks. A file of its own, because `alerts` is a big table.

create function webhook_alert_changed() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform record_webhook_event(
    case new.status when 'active' then 'alert.raised' when 'acknowledged' then 'alert.acknowledged'
      else 'alert.resolved' end,
    new.org_id, jsonb_build_object(
      'alertId', new.id, 'deviceId', new.device_id, 'kind', new.kind, 'severity', new.severity, 'status', new.status,
      'title', new.title, 'message', new.message, 'count', new.count,
      'raisedAt', webhook_time(new.raised_at), 'resolvedAt', webhook_time(new.resolved_at),
      'resolution', new.resolution));
  return null;
end
$$;
create trigger alerts_webhooks_raised after insert on alerts
  for each row when (new.status = 'active') execute function webhook_alert_changed();
create trigger alerts_webhooks after update of status on alerts
  for each row when (old.status <> new.status) execute function webhook_alert_changed();
