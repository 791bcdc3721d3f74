-- Webhooks: what happens is sent to the systems of integrators (docs/decisions/webhooks.md). An addition to SPEC.

create table webhooks (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, for all of its organizations.
  org_id uuid,
  name varchar(200) not null,
  url varchar(2048) not null,
  event_types text[] not null,
  enabled boolean not null default true,
  sealed_secret text not null,
  -- Signs beside the other one until then.
  sealed_previous_secret text,
  previous_secret_until timestamptz(3),
  -- Why the server has disabled it: the receiver answered 410 Gone, or failed for days.
  disabled_reason text check (disabled_reason in ('gone', 'failing')),
  -- The organization that has the alert about it.
  alerted_org_id uuid,
  -- When the next delivery is due, if one waits.
  due_at timestamptz(3),
  -- No delivery is tried before this time.
  paused_until timestamptz(3),
  -- Attempts that failed since the last one that did not.
  failures integer not null default 0,
  failing_since timestamptz(3),
  last_success_at timestamptz(3),
  -- One server at a time sends.
  lease_id uuid,
  lease_until timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id),
  foreign key (partner_id, alerted_org_id) references organizations (partner_id, id),
  check (disabled_reason is null or not enabled),
  check ((sealed_previous_secret is null) = (previous_secret_until is null))
);
create unique index webhooks_name on webhooks (coalesce(org_id, partner_id), lower(name));
create index webhooks_of_owner on webhooks (partner_id, org_id);
create index webhooks_of_alert on webhooks (partner_id, alerted_org_id) where alerted_org_id is not null;
create index webhooks_of_creator on webhooks (created_by) where created_by is not null;
create index webhooks_due on webhooks (due_at) where due_at is not null;
create index webhooks_leased on webhooks (lease_until) where lease_until is not null;
select protect_table('webhooks',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- What happened, written in the transaction of its cause, and only where a webhook wants it.
create table webhook_events (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null where it concerns the partner itself.
  org_id uuid,
  type varchar(64) not null,
  data jsonb not null,
  created_at timestamptz(3) not null default now(),
  -- When its deliveries were added.
  fanned_out_at timestamptz(3),
  unique (partner_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create index webhook_events_waiting on webhook_events (id) where fanned_out_at is null;
create index webhook_events_of_owner on webhook_events (org_id, partner_id);
create index webhook_events_by_age on webhook_events (created_at);
select protect_table('webhook_events',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))',
  null, 'select');
grant insert, update, delete on webhook_events to svc_system;

-- One event for one webhook. The owner is that of the webhook.
create table webhook_deliveries (
  id uuid primary key,
  partner_id uuid not null,
  org_id uuid,
  webhook_id uuid not null,
  event_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  is_replay boolean not null default false,
  attempts integer not null default 0,
  next_attempt_at timestamptz(3) default now(),
  last_attempt_at timestamptz(3),
  -- Of the last attempt.
  response_status integer,
  response_excerpt varchar(1024),
  duration_ms integer,
  error varchar(300),
  created_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  foreign key (partner_id, webhook_id) references webhooks (partner_id, id) on delete cascade,
  foreign key (org_id, webhook_id) references webhooks (org_id, id) on delete cascade,
  foreign key (partner_id, event_id) references webhook_events (partner_id, id) on delete cascade,
  check ((next_attempt_at is not null) = (status = 'pending')),
  check ((ended_at is null) = (status = 'pending'))
);
create index webhook_deliveries_newest on webhook_deliveries (webhook_id, created_at desc, id desc);
create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, next_attempt_at, id) where status = 'pending';
create index webhook_deliveries_of_webhook on webhook_deliveries (partner_id, webhook_id);
create index webhook_deliveries_of_organization on webhook_deliveries (org_id, webhook_id) where org_id is not null;
create index webhook_deliveries_of_event on webhook_deliveries (partner_id, event_id);
select protect_table('webhook_deliveries',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))',
  null, 'select, insert, update');

-- The types of events that the functions below write are those of src/features/webhooks/event-catalogue.ts: a test
-- compares them.

-- A technician of an organization causes events and does not see the webhooks of the partner. So the function works
-- across tenants, and returns nothing. In PL/pgSQL, because a function in SQL is planned anew each time that a trigger
-- calls it.
create function record_webhook_event(event_type text, owner uuid, event_data jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, public as $$
begin
  insert into webhook_events (id, partner_id, org_id, type, data)
  select new_row_id(), o.partner_id, o.id, event_type, event_data from organizations o
  where o.id = owner and o.deleted_at is null and exists (
    select from webhooks w where w.partner_id = o.partner_id and (w.org_id is null or w.org_id = o.id)
      and w.enabled and event_type = any(w.event_types));
end
$$;
revoke execute on function record_webhook_event(text, uuid, jsonb) from public;
grant execute on function record_webhook_event(text, uuid, jsonb) to svc_app, svc_system;

-- For what concerns every partner.
create function record_webhook_event_of_partners(event_type text, event_data jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, public as $$
begin
  insert into webhook_events (id, partner_id, type, data)
  select new_row_id(), p.id, event_type, event_data from partners p
  where p.deleted_at is null and exists (
    select from webhooks w where w.partner_id = p.id and w.org_id is null and w.enabled
      and event_type = any(w.event_types));
end
$$;
revoke execute on function record_webhook_event_of_partners(text, jsonb) from public;
grant execute on function record_webhook_event_of_partners(text, jsonb) to svc_app, svc_system;

-- As the API writes times. Without a search path of its own, Postgres puts its body where it is called.
create function webhook_time(at timestamptz) returns text language sql stable parallel safe as $$
  select pg_catalog.to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Presence has no trigger: every heartbeat writes it. That a device is offline is an alert.
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

-- Payload and output are left out: they may be large, and hold what only people may see who may execute commands. The
-- exit code is in the event, because a script that was run and has failed is a command that has succeeded.
create function webhook_command_ended() returns trigger language plpgsql
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
create trigger commands_webhooks after update of status on commands
  for each row when (old.finished_at is null and new.finished_at is not null)
  execute function webhook_command_ended();

create function webhook_rollout_halted() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform record_webhook_event_of_partners('rollout.halted', jsonb_build_object(
    'rolloutId', new.id, 'component', new.component, 'version', new.version, 'wave', new.wave));
  return null;
end
$$;
create trigger agent_rollouts_webhooks after update of state on agent_rollouts
  for each row when (old.state <> 'halted' and new.state = 'halted')
  execute function webhook_rollout_halted();

-- Its facts are stored after the end of its work, in the same transaction: so the trigger runs at the end of that.
create function webhook_backup_job_ended() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
declare
  job backup_job_facts;
begin
  select * into job from backup_job_facts f where f.id = new.id;
  perform record_webhook_event('backup.job_ended', new.org_id, jsonb_build_object(
    'jobId', new.id, 'deviceId', new.device_id, 'configId', job.config_id, 'trigger', job.type, 'status', new.status,
    'addedBytes', job.added_bytes, 'errorCode', new.error_code, 'errorMessage', new.error_message,
    'startedAt', webhook_time(new.started_at), 'finishedAt', webhook_time(new.finished_at)));
  return null;
end
$$;
create constraint trigger work_webhooks_of_backups after update of finished_at on work
  initially deferred
  for each row when (new.kind = 'backup' and old.finished_at is null and new.finished_at is not null)
  execute function webhook_backup_job_ended();

-- The same.
create function webhook_restore_ended() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
declare
  restore backup_restore_facts;
begin
  select * into restore from backup_restore_facts f where f.id = new.id;
  perform record_webhook_event('backup.restore_ended', new.org_id, jsonb_build_object(
    'restoreId', new.id, 'deviceId', new.device_id, 'snapshotId', restore.snapshot_id, 'isDryRun', restore.dry_run,
    'status', new.status, 'restoredFiles', restore.restored_files, 'failedFiles', restore.failed_count,
    'errorCode', new.error_code, 'errorMessage', new.error_message,
    'startedAt', webhook_time(new.started_at), 'finishedAt', webhook_time(new.finished_at)));
  return null;
end
$$;
create constraint trigger work_webhooks_of_restores after update of finished_at on work
  initially deferred
  for each row when (new.kind = 'restore' and old.finished_at is null and new.finished_at is not null)
  execute function webhook_restore_ended();

create function webhook_cloud_job_ended() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
declare
  job c2c_job_facts;
begin
  select * into job from c2c_job_facts f where f.id = new.id;
  perform record_webhook_event('cloud_backup.job_ended', new.org_id, jsonb_build_object(
    'jobId', new.id, 'configId', job.config_id, 'kind', job.type, 'trigger', job.trigger, 'status', new.status,
    'itemsProcessed', job.items_processed, 'itemsFailed', job.items_failed,
    'errorCode', new.error_code, 'errorMessage', new.error_message,
    'startedAt', webhook_time(new.started_at), 'finishedAt', webhook_time(new.finished_at)));
  return null;
end
$$;
create trigger work_webhooks_of_cloud_jobs after update of finished_at on work
  for each row when (new.kind = 'cloud_backup' and old.finished_at is null and new.finished_at is not null)
  execute function webhook_cloud_job_ended();

-- Entries are sealed by the hundred, so one statement finds the webhooks for all of a batch. Addresses, details and
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
create trigger audit_logs_webhooks after insert on audit_logs
  referencing new table as added for each statement execute function webhook_audit_sealed();

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function record_webhook_event(text, uuid, jsonb) owner to svc_system;
alter function record_webhook_event_of_partners(text, jsonb) owner to svc_system;
alter function webhook_audit_sealed() owner to svc_system;
revoke create on schema public from svc_system;
