-- Events of devices for webhooks. A file of its own, because `devices` is a big table. Presence has no trigger: every
-- heartbeat writes it. That a device is offline is an alert.

create function webhook_device_changed() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform record_webhook_event(
    case when tg_op = 'INSERT' then 'device.created'
      when new.condition = 'decommissioned' then 'device.decommissioned' else 'device.restored' end,
    new.org_id, jsonb_build_object(
      'deviceId', new.id, 'siteId', new.site_id, 'hostname', new.hostname, 'displayName', new.display_name,
      'osType', new.os_type, 'osVersion', new.os_version, 'agentVersion', new.agent_version));
  return null;
end
$$;
create trigger devices_webhooks_created after insert on devices
  for each row execute function webhook_device_changed();
create trigger devices_webhooks after update of condition on devices
  for each row when ((old.condition = 'decommissioned') <> (new.condition = 'decommissioned'))
  execute function webhook_device_changed();
