-- The event of a command that ended has the exit code of its script: a script that was run and has failed is a command
-- that has succeeded. Only scripts have one. Payload and the rest of the output stay left out.
create or replace function webhook_command_ended() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform record_webhook_event('command.ended', new.org_id, jsonb_build_object(
    'commandId', new.id, 'deviceId', new.device_id, 'type', new.type, 'status', new.status, 'reason', new.reason,
    'exitCode', new.output -> 'exitCode',
    'executionId', new.execution_id, 'scriptId', new.script_id, 'createdBy', new.created_by,
    'createdAt', webhook_time(new.created_at), 'startedAt', webhook_time(new.started_at),
    'finishedAt', webhook_time(new.finished_at)));
  return null;
end
$$;
