-- Scripts of an organization, or of a partner for all of its organizations, and what was started with them (SHAPES 8).

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

-- What was started together. The script may be gone or changed since: each command has what it ran.
alter table commands
  add column execution_id uuid,
  add column script_id uuid references scripts (id) on delete set null;
create index commands_of_execution on commands (execution_id, created_at, id) where execution_id is not null;
create index commands_of_script on commands (script_id) where script_id is not null;
