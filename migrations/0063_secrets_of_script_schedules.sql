-- The secrets that a schedule hands to the runs that it starts (docs/decisions/script-schedules.md).
create table script_schedule_secrets (
  id uuid primary key,
  schedule_id uuid not null,
  -- Those of the schedule.
  partner_id uuid not null references partners (id),
  org_id uuid,
  name varchar(64) not null check (name <> ''),
  -- Sealed.
  value text not null,
  -- Who has given the value, and therefore knows it. Null if the account was deleted.
  set_by uuid references users (id) on delete set null,
  set_at timestamptz(3) not null,
  foreign key (partner_id, schedule_id) references script_schedules (partner_id, id) on delete cascade,
  foreign key (org_id, schedule_id) references script_schedules (org_id, id) on delete cascade
);
-- Windows ignores the case of the names of variables.
create unique index script_schedule_secrets_name on script_schedule_secrets (schedule_id, lower(name));
create index script_schedule_secrets_of_partner on script_schedule_secrets (partner_id, schedule_id);
create index script_schedule_secrets_of_organization on script_schedule_secrets (org_id, schedule_id)
  where org_id is not null;
create index script_schedule_secrets_of_person on script_schedule_secrets (set_by) where set_by is not null;
select protect_table('script_schedule_secrets',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

alter table script_schedules
  -- Of the script as it was when a person who knows the secrets gave them to it: they are handed to no other.
  add column secrets_for text check (secrets_for ~ '^[0-9a-f]{64}$'),
  drop constraint script_schedules_paused_reason_check,
  -- The rows that are there have passed the narrower check.
  add constraint script_schedules_paused_reason_check check (paused_reason in ('person_gone', 'permission_lost',
    'access_lost', 'script_gone', 'script_changed', 'secrets_missing', 'secrets_unreadable')) not valid;
