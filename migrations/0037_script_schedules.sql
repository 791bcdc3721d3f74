-- Scripts that run by a schedule, of an organization or of a partner for all of its organizations
-- (docs/decisions/script-schedules.md).
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

alter table script_runs
  add column schedule_id uuid references script_schedules (id) on delete set null,
  -- The time of the schedule for which it was made.
  add column slot_at timestamptz(3);
-- A schedule has one run for each of its times, whatever servers do.
create unique index script_runs_of_schedule on script_runs (schedule_id, slot_at) where schedule_id is not null;
