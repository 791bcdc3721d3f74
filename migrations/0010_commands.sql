-- Scripts, and the ledger of work for devices: what was asked for, how far it came, how it ended, and every step
-- between (SHAPES 7, 8).

create table scripts (
  id uuid primary key,
  org_id uuid references organizations (id),
  partner_id uuid references partners (id),
  name varchar(255) not null,
  description varchar(1000),
  language text not null check (language in ('bash', 'powershell', 'python')),
  content text not null,
  -- Empty: any.
  os_types text[] not null default '{}' check (os_types <@ '{windows,macos,linux}'),
  timeout_seconds integer not null default 300 check (timeout_seconds between 1 and 86400),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  check ((org_id is null) <> (partner_id is null))
);
create index scripts_of_organization on scripts (org_id, lower(name), id) where org_id is not null;
create index scripts_of_partner on scripts (partner_id, lower(name), id) where partner_id is not null;
select protect_table('scripts',
  'org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_id())');

create table commands (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  device_id uuid not null,
  type varchar(64) not null,
  payload jsonb not null,
  -- What was started together. The script may be gone or changed since: each command has what it ran.
  execution_id uuid,
  script_id uuid references scripts (id) on delete set null,
  -- The work of the server that waits for its end (migrations/0011_work.sql).
  work_id uuid,
  status text not null default 'queued' check (status in (
    'queued', 'dispatched', 'accepted', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'expired')),
  -- Why it is in this state, where the state does not say it.
  reason varchar(64),
  created_by uuid references users (id) on delete set null,
  -- How long the device may take once it has the command.
  timeout_seconds integer not null check (timeout_seconds > 0),
  attempt integer not null default 0,
  -- The server that sent it last, and its claim to the device at that time.
  node_id text,
  epoch bigint,
  cancel_requested_at timestamptz(3),
  progress jsonb,
  output jsonb,
  error jsonb,
  -- What a device told after the command had ended without it.
  late_result jsonb,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  -- When a device that has it must have ended it.
  due_at timestamptz(3),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade,
  check ((finished_at is not null) = (status in ('succeeded', 'failed', 'cancelled', 'timed_out', 'expired')))
);
create index commands_of_device on commands (device_id, created_at desc, id desc);
create index commands_open on commands (device_id, created_at, id)
  where status in ('queued', 'dispatched', 'accepted', 'running');
create index commands_expiring on commands (expires_at) where status in ('queued', 'dispatched');
create index commands_due on commands (due_at) where status in ('accepted', 'running');
create index commands_of_execution on commands (execution_id, created_at, id) where execution_id is not null;
create index commands_of_script on commands (script_id) where script_id is not null;
-- Each server looks from time to time for work that its devices were never told of, because the server that took it
-- died or could not reach them. Most of the time this index is empty, or holds the work of devices that are away.
create index commands_undelivered on commands (device_id)
  where status = 'queued' or cancel_requested_at is not null and status in ('dispatched', 'accepted', 'running');
-- For the daily removal of old rows (docs/decisions/row-life.md).
create index commands_ended on commands (org_id, finished_at) where finished_at is not null;
select protect_table('commands', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
-- Commands that ended long ago are removed across tenants (docs/decisions/row-life.md). Their steps go with them.
grant delete on commands to svc_system;

-- Written by the database, so that no change of state is without its row, and what has ended stays as it ended.
create function keep_command_transition() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  if tg_op = 'UPDATE' then
    if old.finished_at is not null and (old.status, old.output, old.error) is distinct from (new.status, new.output, new.error) then
      raise exception 'command % has ended as %', old.id, old.status using errcode = 'integrity_constraint_violation';
    end if;
    if old.status = new.status and old.attempt = new.attempt then
      return null;
    end if;
  end if;
  insert into command_transitions (command_id, org_id, from_status, to_status, reason, attempt, node_id, at)
    values (new.id, new.org_id, case when tg_op = 'UPDATE' then old.status end, new.status, new.reason, new.attempt,
      new.node_id, clock_timestamp());
  return null;
end
$$;
create trigger commands_transition after insert or update on commands
  for each row execute function keep_command_transition();

create table command_transitions (
  command_id uuid not null,
  seq bigint generated by default as identity,
  org_id uuid not null,
  from_status text,
  to_status text not null,
  reason varchar(64),
  attempt integer not null,
  node_id text,
  at timestamptz(3) not null,
  primary key (command_id, seq),
  foreign key (org_id, command_id) references commands (org_id, id) on delete cascade on update cascade
);
select protect_table('command_transitions', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');

-- Secrets that commands refer to (docs/decisions/command-ledger.md). The payload of a command holds references
-- only. A request writes secrets and never reads them; they are read when the command is sent, across tenants.
create table command_secrets (
  id uuid primary key,
  org_id uuid not null,
  command_id uuid not null,
  -- What the payload calls it. It means nothing without the command, so no other command can use it.
  ref uuid not null,
  -- Sealed.
  value text not null,
  unique (command_id, ref),
  foreign key (org_id, command_id) references commands (org_id, id) on delete cascade on update cascade
);
-- By organization first, as its key to the command is.
create index command_secrets_of_command on command_secrets (org_id, command_id);
select protect_table('command_secrets', 'org_id = any((select app_org_ids())::uuid[])', null, 'insert');
-- To send a command, to seal its secrets with a newer key, and to remove them with the end of the command.
grant select, update, delete on command_secrets to svc_system;

-- A command that has ended is never sent again, so nothing needs its secrets any more.
create function remove_command_secrets() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  delete from command_secrets where command_id = new.id;
  return null;
end
$$;
revoke execute on function remove_command_secrets() from public;
create trigger commands_end_of_secrets after update of finished_at on commands
  for each row when (old.finished_at is null and new.finished_at is not null) execute function remove_command_secrets();

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function remove_command_secrets() owner to svc_system;
revoke create on schema public from svc_system;
