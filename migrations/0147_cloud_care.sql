-- How well cloud backup configurations protect what they are about, for the overview of backups and for alerts
-- (docs/decisions/backup-care.md).

-- Runs are removed after some months, and what the last good one has stored stays.
alter table c2c_configs
  add column last_success_at timestamptz(3),
  -- Since when the schedule is what it is; null: since the configuration was made.
  add column scheduled_since timestamptz(3);
-- An owner who is no superuser sees the rows of his own tables only while he is not forced to go by their policies.
alter table c2c_configs no force row level security;
alter table c2c_jobs no force row level security;
update c2c_configs c set last_success_at = (
  select max(j.finished_at) from c2c_jobs j
  where j.config_id = c.id and j.type = 'backup' and j.status in ('completed', 'partial'));
alter table c2c_configs force row level security;
alter table c2c_jobs force row level security;

create table c2c_readiness (
  config_id uuid primary key,
  org_id uuid not null,
  score smallint not null check (score between 0 and 100),
  -- The age of the last good run; null: there was none.
  rpo_minutes integer,
  risks jsonb not null,
  is_failing boolean not null,
  is_late boolean not null,
  is_unprotected boolean not null,
  calculated_at timestamptz(3) not null,
  foreign key (org_id, config_id) references c2c_configs (org_id, id) on delete cascade
);
create index c2c_readiness_of_org on c2c_readiness (org_id, score, config_id);
select protect_table('c2c_readiness', 'org_id = any((select app_org_ids())::uuid[])');

-- The newest run that has ended, and those of the last days that have failed.
create index c2c_jobs_ended_runs on c2c_jobs (org_id, config_id, finished_at desc, id desc)
  where type = 'backup' and status in ('completed', 'partial', 'failed');
