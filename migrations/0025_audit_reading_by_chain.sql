-- The trail is read chain by chain (docs/decisions/audit-reading.md): what a caller sees is some chains, and of each the
-- newest entries, those of an action, of a person or of a resource lie in the order in which they are shown.

-- Every chain that the caller sees: of the organizations, and what concerns the partner itself.
create function app_chain_ids() returns uuid[] language sql stable parallel safe as $$
  select app_org_ids() || app_partner_id()
$$;

-- The same rows as before, by one column.
alter policy tenant on audit_logs using (chain_id = any((select app_chain_ids())::uuid[]));

create index audit_logs_newest_of_chain on audit_logs (chain_id, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_action on audit_logs (chain_id, action, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_actor on audit_logs (chain_id, actor_id, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_resource on audit_logs (chain_id, resource_type, resource_name, "timestamp" desc, id desc);
-- A chain has as many entries as its head says, less those that were pruned.
create index audit_checkpoints_cuts on audit_checkpoints (chain_id, seq) where kind = 'cut';
drop index audit_logs_newest_by_org;
drop index audit_logs_newest_of_partner;
drop index audit_logs_by_action;
drop index audit_logs_by_actor;

-- Who and what there is in each chain, noted as entries are sealed: few rows, in which a part of a name is looked for
-- before entries are. They prove nothing, and may name what was pruned since.
create table audit_actors (
  chain_id uuid not null,
  actor_id uuid not null,
  actor_email varchar(255),
  unique nulls not distinct (chain_id, actor_id, actor_email)
);
create table audit_resources (
  chain_id uuid not null,
  resource_type varchar(50) not null,
  resource_name varchar(255),
  unique nulls not distinct (chain_id, resource_type, resource_name)
);
select protect_table('audit_actors', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
select protect_table('audit_resources', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
grant insert on audit_actors, audit_resources to svc_system;

-- An owner who is no superuser sees the rows of his own tables only while he is not forced to go by their policies.
alter table audit_logs no force row level security;
alter table audit_actors no force row level security;
alter table audit_resources no force row level security;
insert into audit_actors select distinct chain_id, actor_id, actor_email from audit_logs where actor_type <> 'agent';
insert into audit_resources select distinct chain_id, resource_type, resource_name from audit_logs;
alter table audit_logs force row level security;
alter table audit_actors force row level security;
alter table audit_resources force row level security;
