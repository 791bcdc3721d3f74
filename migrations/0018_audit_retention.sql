-- For how long an organization keeps its audit entries (SPEC 2.15); where it has no row, the server's defaults.
create table audit_retention_policies (
  org_id uuid primary key references organizations (id),
  -- At the least a month: whoever got hold of an account cannot have the trail of it removed the next day.
  retention_days integer not null default 365 check (retention_days between 30 and 3650),
  archive_to_s3 boolean not null default false,
  last_cleanup_at timestamptz(3),
  -- Why nothing was removed the last time; null since a cleanup went well.
  last_failure_at timestamptz(3),
  last_failure text,
  updated_at timestamptz(3) not null default now()
);
select protect_table('audit_retention_policies', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');
