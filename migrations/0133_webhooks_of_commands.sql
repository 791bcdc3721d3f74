-- Events of commands for webhooks. A file of its own, because `commands` is a big table. Payload and output are left out:
-- they may be large, and hold what only those may see who may execute commands.

create function webhook_command_ended() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform record_webhook_event('command.ended', new.org_id, jsonb_build_object(
    'commandId', new.id, 'deviceId', new.device_id, 'type', new.type, 'status', new.status, 'reason', new.reason,
    'executionId', new.execution_id, 'scriptId', new.script_id, 'createdBy', new.created_by,
    'createdAt', webhook_time(new.created_at), 'startedAt', webhook_time(new.started_at),
    'finishedAt', webhook_time(new.finished_at)));
  return null;
end
$$;
create trigger commands_webhooks after update of status on commands
  for each row when (old.finished_at is null and new.finished_at is not null)
  execute function webhook_command_ended();
