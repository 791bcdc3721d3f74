-- The ledger of work for devices (SHAPES 7): what was asked for, how far it came, how it ended, and every step between.

create table commands (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  device_id uuid not null,
  type varchar(64) not null,
  payload jsonb not null,
  status text not null default 'queued' check (status in (
    'queued', 'dispatched', 'accepted', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'expired')),
  -- Why it is in this state, where the state does not say it.
  reason varchar(64),
  created_by uuid references users (id) on delete set null,
  -- How long the device may take once it has the command.
  timeout_seconds integer not null check (timeout_seconds > 0),
  attempt integer not null default 0,
  -- Who sent it last, and under which claim to the device.
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
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade,
  check ((finished_at is not null) = (status in ('succeeded', 'failed', 'cancelled', 'timed_out', 'expired')))
);
create index commands_of_device on commands (device_id, created_at desc, id desc);
create index commands_open on commands (device_id, created_at, id)
  where status in ('queued', 'dispatched', 'accepted', 'running');
create index commands_expiring on commands (expires_at) where status in ('queued', 'dispatched');
create index commands_due on commands (due_at) where status in ('accepted', 'running');

create table command_transitions (
  command_id uuid not null,
  seq bigint generated always as identity,
  org_id uuid not null,
  from_status text,
  to_status text not null,
  reason varchar(64),
  attempt integer not null,
  node_id text,
  at timestamptz(3) not null,
  primary key (command_id, seq),
  foreign key (org_id, command_id) references commands (org_id, id) on delete cascade
);

-- Kept by the database, so that no change of state is without its line, and what has ended stays as it ended.
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

select protect_table('commands', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
select protect_table('command_transitions', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');

-- The first answer to a request that its sender may have to send again (SHAPES 1): one key, one deed.
create table idempotency_keys (
  user_id uuid not null references users (id) on delete cascade,
  key varchar(255) not null,
  request_hash char(64) not null,
  status smallint,
  answer jsonb,
  created_at timestamptz(3) not null default now(),
  primary key (user_id, key)
);
select protect_table('idempotency_keys', 'user_id = (select app_user_id())');
