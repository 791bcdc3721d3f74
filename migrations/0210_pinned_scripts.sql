-- Checks of recovery plans run the version of a script that a person has chosen (docs/decisions/disaster-recovery.md).

-- [{ scriptId, name, sha256 }]: the scripts that checks of the group name, at most once each. One that is not listed was
-- chosen before versions were kept.
alter table dr_groups add column scripts jsonb not null default '[]';

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
