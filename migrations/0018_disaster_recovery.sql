-- Disaster recovery: plans, their groups, and executions (SPEC 4.13, SHAPES 14; docs/decisions/disaster-recovery.md).

create table dr_plans (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null,
  description varchar(2000),
  rpo_target_minutes integer,
  rto_target_minutes integer,
  status text not null default 'draft' check (status in ('draft', 'active', 'archived')),
  rehearsal_schedule jsonb,
  next_rehearsal_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id)
);
create unique index dr_plans_name on dr_plans (org_id, lower(name));
create index dr_plans_due on dr_plans (next_rehearsal_at) where next_rehearsal_at is not null;
select protect_table('dr_plans', 'org_id = any((select app_org_ids())::uuid[])');

create table dr_groups (
  id uuid primary key,
  org_id uuid not null,
  plan_id uuid not null,
  name varchar(200) not null,
  sequence integer not null,
  depends_on_group_id uuid,
  -- [{ deviceId, targetDeviceId?, restore, checks }]: of the organization when they were written, and checked again
  -- when the plan is executed.
  devices jsonb not null,
  -- [{ scriptId, name, sha256 }]: the scripts that checks of the group name, at most once each. One that is not listed
  -- was chosen before versions were kept.
  scripts jsonb not null default '[]',
  estimated_duration_minutes integer,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, plan_id) references dr_plans (org_id, id) on delete cascade,
  foreign key (org_id, depends_on_group_id) references dr_groups (org_id, id)
);
create index dr_groups_of_plan on dr_groups (org_id, plan_id, sequence);
create index dr_groups_of_dependency on dr_groups (org_id, depends_on_group_id);
select protect_table('dr_groups', 'org_id = any((select app_org_ids())::uuid[])');

-- Checks run the version of a script that a person has chosen.
create table dr_pinned_scripts (
  org_id uuid not null,
  plan_id uuid not null,
  -- Of the fields below.
  sha256 char(64) not null check (sha256 ~ '^[0-9a-f]{64}$'),
  language text not null check (language in ('bash', 'powershell', 'python')),
  content text not null,
  timeout_seconds integer not null,
  created_at timestamptz(3) not null default now(),
  primary key (org_id, plan_id, sha256),
  foreign key (org_id, plan_id) references dr_plans (org_id, id) on delete cascade
);
-- Nobody changes a version.
select protect_table(
  'dr_pinned_scripts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, delete');

create table dr_executions (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  -- Null: the plan was deleted.
  plan_id uuid,
  plan_name varchar(200) not null,
  execution_type text not null check (execution_type in ('rehearsal', 'failover', 'failback')),
  trigger text not null check (trigger in ('manual', 'schedule')),
  status text not null default 'pending' check (status in ('pending', 'running', 'completed', 'failed', 'aborted')),
  note varchar(500),
  -- As they were when it began: [{ id, name, sequence, dependsOnGroupId, estimatedDurationMinutes }].
  groups jsonb not null,
  rpo_target_minutes integer,
  rto_target_minutes integer,
  phase text,
  steps_done integer not null default 0,
  steps_total integer not null default 0,
  halt_reason varchar(1000),
  report jsonb,
  abort_requested_at timestamptz(3),
  -- When a server last worked on it, to the minute.
  led_at timestamptz(3) not null default now(),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  constraint dr_executions_end check ((finished_at is not null) = (status in ('completed', 'failed', 'aborted'))),
  foreign key (org_id, plan_id) references dr_plans (org_id, id) on delete set null (plan_id)
);
-- One execution of a plan at a time, over all servers.
create unique index dr_executions_open on dr_executions (plan_id) where finished_at is null;
create index dr_executions_of_plan on dr_executions (org_id, plan_id, created_at desc, id desc);
create index dr_executions_newest on dr_executions (org_id, created_at desc, id desc);
create index dr_executions_by_age on dr_executions (org_id, finished_at) where finished_at is not null;
select protect_table('dr_executions', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on dr_executions to svc_system;
create trigger dr_executions_work_added after insert on dr_executions
  referencing new table as changed for each statement execute function announce_long_work('dr');
create trigger dr_executions_work after update on dr_executions
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('dr');

-- One for each device of an execution.
create table dr_steps (
  id uuid primary key,
  org_id uuid not null,
  execution_id uuid not null,
  position integer not null,
  group_id uuid not null,
  -- The devices by their names of that time: an execution is a record, and outlives them.
  device_id uuid not null,
  device_name varchar(255) not null,
  target_device_id uuid not null,
  target_device_name varchar(255) not null,
  -- As the plan has it.
  definition jsonb not null,
  state text not null default 'waiting'
    check (state in ('waiting', 'running', 'checking', 'completed', 'failed', 'skipped', 'aborted')),
  snapshot_id uuid,
  recovery_point_at timestamptz(3),
  -- By which the data was backed up.
  config_id uuid,
  -- Of a failover of files: where each path of the source is on the target, [{ source, target }].
  places jsonb not null default '[]',
  -- The source is replaced by its target from then until it is failed back.
  failed_over_at timestamptz(3),
  failed_back_at timestamptz(3),
  -- Of a failback: the step whose mark it clears.
  brings_back uuid,
  error_code varchar(64),
  error_message varchar(2000),
  started_at timestamptz(3),
  ready_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  foreign key (org_id, execution_id) references dr_executions (org_id, id) on delete cascade
);
create index dr_steps_of_execution on dr_steps (org_id, execution_id, position);
create index dr_steps_failed_over on dr_steps (org_id, execution_id)
  where failed_over_at is not null and failed_back_at is null;
select protect_table('dr_steps', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');

-- What is done for a step, one after another.
create table dr_actions (
  id uuid primary key,
  org_id uuid not null,
  step_id uuid not null,
  position integer not null,
  kind text not null check (kind in ('restore', 'backup', 'check', 'discard')),
  phase text not null check (phase in ('main', 'cleanup')),
  name varchar(500) not null,
  state text not null default 'waiting'
    check (state in ('waiting', 'running', 'succeeded', 'failed', 'cancelled', 'skipped')),
  device_id uuid not null,
  spec jsonb not null,
  -- Of a discard: the action that it undoes.
  undoes uuid,
  -- What does the work. The feature that it belongs to keeps it for a time of its own.
  restore_id uuid,
  vm_restore_id uuid,
  backup_job_id uuid,
  command_id uuid,
  message varchar(2000),
  result jsonb,
  error_code varchar(64),
  error_message varchar(2000),
  cancel_requested_at timestamptz(3),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (org_id, id),
  foreign key (org_id, step_id) references dr_steps (org_id, id) on delete cascade
);
create index dr_actions_of_step on dr_actions (org_id, step_id, position);
-- What is still to be taken down after the end of its execution.
create index dr_actions_left on dr_actions (step_id) where phase = 'cleanup' and state in ('running', 'failed');
select protect_table('dr_actions', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
