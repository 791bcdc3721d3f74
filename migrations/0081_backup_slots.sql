-- How far the scheduler of backups is, by configuration and time zone (docs/decisions/backup-jobs.md).
create table backup_schedule_slots (
  config_id uuid not null,
  org_id uuid not null,
  time_zone varchar(64) not null,
  -- The `scheduled_since` of the configuration for which this was computed.
  since timestamptz(3) not null,
  -- The slot that has come, while the time of some of its devices has not; else null.
  slot timestamptz(3),
  -- Up to this many seconds after the slot, jobs have been made.
  made_seconds integer not null default -1,
  next_at timestamptz(3) not null,
  primary key (config_id, time_zone),
  foreign key (org_id, config_id) references backup_configs (org_id, id) on delete cascade
);
create index backup_schedule_slots_of_org on backup_schedule_slots (org_id, config_id);
select protect_table('backup_schedule_slots', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
