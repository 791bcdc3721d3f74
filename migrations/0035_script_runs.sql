-- Script runs: one request to run one version of a script on devices, and what became of it on each of them
-- (docs/decisions/script-runs.md); and schedules, which start runs (docs/decisions/script-schedules.md).

-- Of an organization, or of a partner for all of its organizations.
create table script_schedules (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, for all of its organizations.
  org_id uuid,
  name varchar(100) not null check (name <> ''),
  -- Null if the script was deleted: then it does not run.
  script_id uuid references scripts (id) on delete set null,
  enabled boolean not null default true,
  -- Five fields, on the clocks of the time zone.
  cron varchar(100) not null,
  timezone varchar(50) not null,
  -- Which devices: { all } or one of { filterId, groupIds, siteIds, deviceIds }, looked up at each run.
  target jsonb not null,
  parameters jsonb not null default '{}',
  -- How long after its time it still runs on a device that was away, and after the servers were away.
  catch_up_minutes integer not null check (catch_up_minutes between 5 and 43200),
  -- The person by whose rights it runs: who changed it last.
  runs_as uuid references users (id) on delete set null,
  -- When it is due. Null while it is not: disabled or paused.
  next_at timestamptz(3),
  -- The last time at which it ran, or did not, and why.
  last_slot_at timestamptz(3),
  last_skip text check (last_skip in ('missed', 'no_devices', 'too_many_devices', 'partner_inactive')),
  -- Why the server does not run it any more, until a person changes it.
  paused_reason text check (paused_reason in ('person_gone', 'permission_lost', 'access_lost', 'script_gone')),
  paused_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id),
  check ((paused_reason is null) = (paused_at is null)),
  check (next_at is null or (enabled and paused_reason is null))
);
create unique index script_schedules_name on script_schedules (coalesce(org_id, partner_id), lower(name));
create index script_schedules_of_owner on script_schedules (partner_id, org_id);
create index script_schedules_due on script_schedules (next_at) where next_at is not null;
create index script_schedules_of_script on script_schedules (script_id) where script_id is not null;
create index script_schedules_of_person on script_schedules (runs_as) where runs_as is not null;
create index script_schedules_of_creator on script_schedules (created_by) where created_by is not null;
select protect_table('script_schedules',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

create table script_runs (
  -- Also the `execution_id` of its commands.
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- The organizations of its devices when it was started. Who may see one of them sees the run, with its own devices.
  org_ids uuid[] not null check (org_ids <> '{}'),
  -- The script may be changed or deleted since. What follows is the version that is run.
  script_id uuid references scripts (id) on delete set null,
  -- Null: of the partner.
  script_org_id uuid,
  script_name varchar(255) not null,
  language text not null check (language in ('bash', 'powershell', 'python')),
  content text not null,
  os_types text[] not null,
  timeout_seconds integer not null,
  version text not null check (version ~ '^[0-9a-f]{64}$'),
  parameters jsonb not null default '{}',
  -- Their values are in the commands only, until these have ended.
  secret_names text[] not null default '{}',
  -- Which devices were asked for. Null of a repetition.
  target jsonb,
  again_of uuid references script_runs (id) on delete set null,
  -- What has started it, and the time of it for which it was made.
  schedule_id uuid references script_schedules (id) on delete set null,
  slot_at timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  -- A device that was not reached by then does not run it.
  expires_at timestamptz(3) not null,
  -- When all of its commands were in the ledger.
  started_at timestamptz(3),
  cancel_requested_at timestamptz(3),
  -- Why its commands were not all added.
  error varchar(500)
);
create index script_runs_of_organizations on script_runs using gin (org_ids);
create index script_runs_of_script on script_runs (script_id) where script_id is not null;
create index script_runs_of_person on script_runs (created_by) where created_by is not null;
create index script_runs_of_partner on script_runs (partner_id, created_at);
create index script_runs_again on script_runs (again_of) where again_of is not null;
-- A schedule has one run for each of its times, whatever servers do.
create unique index script_runs_of_schedule on script_runs (schedule_id, slot_at) where schedule_id is not null;
create index script_runs_starting on script_runs (created_at) where started_at is null and error is null;
create index script_runs_by_age on script_runs (created_at);
select protect_table('script_runs',
  'partner_id = (select app_partner_wide()) or org_ids && (select app_org_ids())::uuid[]',
  'partner_id = (select app_partner_wide()) or org_ids <@ (select app_org_ids())::uuid[]', 'select, insert, update');
grant delete on script_runs to svc_system;

create table script_run_devices (
  run_id uuid not null references script_runs (id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  -- Null until it is added, and if the device was refused.
  command_id uuid,
  refusal_code varchar(64),
  refusal varchar(500),
  -- Of the command. A trigger keeps what follows, so that runs are counted without reading outputs.
  status text,
  reason varchar(64),
  -- Windows has exit codes of 32 bits without a sign.
  exit_code bigint,
  -- SHA-256 of exit code, output and errors, or of the failure: devices with the same text have reported the same.
  output_hash text,
  started_at timestamptz(3),
  finished_at timestamptz(3),
  outcome text not null generated always as (case
    when refusal_code is not null then 'refused'
    when status is null or status in ('queued', 'dispatched') then 'waiting'
    when status in ('accepted', 'running') then 'running'
    when status = 'succeeded' and exit_code = 0 then 'completed'
    when status = 'succeeded' then 'failed'
    else status end) stored,
  primary key (run_id, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade,
  foreign key (org_id, command_id) references commands (org_id, id) on delete cascade on update cascade
);
create index script_run_devices_of_device on script_run_devices (org_id, device_id);
create index script_run_devices_of_command on script_run_devices (org_id, command_id);
create index script_run_devices_by_outcome on script_run_devices (run_id, outcome, org_id);
create index script_run_devices_by_output on script_run_devices (run_id, output_hash) where output_hash is not null;
create index script_run_devices_unadded on script_run_devices (run_id, device_id)
  where command_id is null and refusal_code is null and finished_at is null;
select protect_table('script_run_devices', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');

create function follow_command_of_script_run() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  update script_run_devices set status = new.status, reason = new.reason,
    exit_code = (new.output ->> 'exitCode')::bigint,
    output_hash = case
      when new.finished_at is null then null
      when new.output is not null then encode(sha256(convert_to(jsonb_build_array(
        new.output -> 'exitCode', new.output -> 'stdout', new.output -> 'stderr')::text, 'UTF8')), 'hex')
      when new.error is not null then encode(sha256(convert_to(new.error::text, 'UTF8')), 'hex')
    end,
    started_at = new.started_at, finished_at = new.finished_at
  where run_id = new.execution_id and device_id = new.device_id and command_id = new.id;
  return null;
end
$$;
create trigger commands_script_runs after update of status on commands
  for each row when (new.execution_id is not null and old.status <> new.status)
  execute function follow_command_of_script_run();

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
