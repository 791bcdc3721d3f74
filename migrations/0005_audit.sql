-- Who did what (SPEC 2.15). Rows are written in the transaction of the deed and never changed.

create table audit_logs (
  id uuid primary key,
  org_id uuid references organizations (id),
  partner_id uuid references partners (id),
  "timestamp" timestamptz(3) not null default now(),
  actor_type text not null check (actor_type in ('user', 'api_key', 'agent', 'system')),
  actor_id uuid not null,
  actor_email varchar(255),
  action varchar(100) not null,
  resource_type varchar(50) not null,
  resource_id uuid,
  resource_name varchar(255),
  details jsonb not null default '{}',
  ip_address varchar(45),
  user_agent text,
  result text not null check (result in ('success', 'failure', 'denied')),
  error_message text
);
create index audit_logs_by_org on audit_logs (org_id, "timestamp" desc);

select protect_table('audit_logs',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_id()))',
  null, 'select, insert');
