-- An audit trail that can be proven (SPEC 2.15; docs/decisions/audit-chain.md). An entry is written to the outbox in
-- the transaction of its deed; the sealer moves it to audit_logs, where every row carries the checksum of the one
-- before it; the head of each chain is signed.

-- Every chain that the caller sees: of the organizations, and what concerns the partner itself.
create function app_chain_ids() returns uuid[] language sql stable parallel safe as $$
  select app_org_ids() || app_partner_id()
$$;

-- What is written stays. The triggers that call this hold for everyone, the owner and superusers too, for as long as
-- they are not disabled; what is changed then is found by the chain.
create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'the audit trail is only added to: % on % is refused', lower(tg_op), tg_table_name
    using errcode = 'insufficient_privilege';
end
$$;

-- Entries on their way to audit_logs, with its columns and with the keys to other tables that it lacks. A queue: it
-- holds few rows, and many pass through it.
create table audit_outbox (
  position bigint generated always as identity primary key,
  id uuid not null,
  org_id uuid references organizations (id),
  partner_id uuid references partners (id),
  chain_id uuid not null generated always as (
    coalesce(org_id, partner_id, '00000000-0000-0000-0000-000000000000')) stored,
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
  error_message text,
  foreign key (partner_id, org_id) references organizations (partner_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index audit_outbox_by_chain on audit_outbox (chain_id, position);
-- Tenants write to it and do not see it. The entry about the deletion of an organization is written when that is
-- deleted already, and so out of its partner's reach: the partner may write it by its own name, and the key makes sure
-- that the organization is one of its own.
select protect_table('audit_outbox',
  'org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_id())', null, 'insert');
grant select, delete on audit_outbox to svc_system;
create trigger audit_outbox_no_change before update or truncate on audit_outbox
  for each statement execute function refuse_audit_change();
create trigger audit_outbox_sealer_only before delete on audit_outbox
  for each statement when (current_user <> 'svc_system') execute function refuse_audit_change();

-- Who did what (SPEC 2.15). A chain is an organization's, or a partner's for what concerns no organization of it. Rows
-- of neither are the chain of the zero UUID. Without keys to organizations and partners: the outbox has checked that
-- both exist and belong together, and neither is ever removed. Checked again, each entry would lock both rows twice for
-- nothing.
create table audit_logs (
  id uuid primary key,
  org_id uuid,
  partner_id uuid,
  chain_id uuid not null generated always as (
    coalesce(org_id, partner_id, '00000000-0000-0000-0000-000000000000')) stored,
  seq bigint not null check (seq > 0),
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
  error_message text,
  checksum varchar(128) not null,
  -- Null on the first row, and on the first one that pruning has left.
  prev_checksum varchar(128),
  constraint audit_logs_place unique (chain_id, seq),
  -- Nothing can follow the same row twice: a fork is impossible, no matter what writes and which locks were taken.
  constraint audit_logs_no_fork unique nulls not distinct (chain_id, prev_checksum)
);
-- The trail is read newest first, and chain by chain (docs/decisions/audit-reading.md): the newest entries of a chain,
-- those of an action, of a person or of a resource lie in the order in which they are shown.
create index audit_logs_newest on audit_logs ("timestamp" desc, id desc);
create index audit_logs_newest_of_chain on audit_logs (chain_id, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_action on audit_logs (chain_id, action, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_actor on audit_logs (chain_id, actor_id, "timestamp" desc, id desc);
create index audit_logs_of_chain_by_resource on audit_logs
  (chain_id, resource_type, resource_name, "timestamp" desc, id desc);
-- Requests read entries; only the sealer writes them.
select protect_table('audit_logs', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select, insert');

-- An entry that is inserted here without its place in the chain is led to the outbox.
create function lead_to_audit_outbox() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  insert into audit_outbox (id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action,
    resource_type, resource_id, resource_name, details, ip_address, user_agent, result, error_message)
  values (new.id, new.org_id, new.partner_id, new."timestamp", new.actor_type, new.actor_id, new.actor_email,
    new.action, new.resource_type, new.resource_id, new.resource_name, new.details, new.ip_address, new.user_agent,
    new.result, new.error_message);
  return null;
end
$$;
create trigger audit_logs_unsealed before insert on audit_logs
  for each row when (new.seq is null) execute function lead_to_audit_outbox();
create trigger audit_logs_append_only before update or delete on audit_logs
  for each statement when (current_user <> 'svc_audit_admin') execute function refuse_audit_change();
create trigger audit_logs_no_truncate before truncate on audit_logs
  for each statement execute function refuse_audit_change();

-- The private key is sealed with SECRET_ENCRYPTION_KEY: a database alone can neither sign nor make a key that counts.
create table audit_signing_keys (
  id uuid primary key,
  public_key text not null,
  sealed_private_key text not null,
  created_at timestamptz(3) not null default now(),
  retired_at timestamptz(3)
);
create unique index audit_signing_keys_current on audit_signing_keys ((true)) where retired_at is null;
select protect_table('audit_signing_keys', null, null, 'select, insert, update');
create trigger audit_signing_keys_stay before delete or truncate on audit_signing_keys
  for each statement execute function refuse_audit_change();

-- The signed end of each chain, replaced with every batch that is sealed.
create table audit_chain_heads (
  chain_id uuid primary key,
  seq bigint not null,
  checksum varchar(128) not null,
  -- The number it has if it is kept as a checkpoint, and the hash of the checkpoint before it.
  number bigint not null,
  previous varchar(128),
  at timestamptz(3) not null,
  key_id uuid not null references audit_signing_keys (id),
  signature varchar(128) not null
);
select protect_table('audit_chain_heads',
  'chain_id = any((select app_org_ids())::uuid[]) or chain_id = (select app_partner_id())', 'false', 'select');
grant insert, update on audit_chain_heads to svc_system;
create trigger audit_chain_heads_stay before delete or truncate on audit_chain_heads
  for each statement execute function refuse_audit_change();
create trigger audit_chain_heads_sealer_only before update on audit_chain_heads
  for each statement when (current_user not in ('svc_system', 'svc_audit_admin'))
  execute function refuse_audit_change();
create trigger audit_chain_heads_go_forward before update on audit_chain_heads
  for each row when (new.seq < old.seq or new.number < old.number) execute function refuse_audit_change();

-- Heads that are kept, each naming the one before it. `cut`: pruning has taken everything up to and including seq,
-- whose checksum is the anchor of what is left.
create table audit_checkpoints (
  chain_id uuid not null,
  number bigint not null,
  kind text not null check (kind in ('head', 'cut')),
  seq bigint not null,
  checksum varchar(128) not null,
  previous varchar(128),
  at timestamptz(3) not null,
  key_id uuid not null references audit_signing_keys (id),
  signature varchar(128) not null,
  primary key (chain_id, number)
);
-- A chain has as many entries as its head says, less those that were pruned.
create index audit_checkpoints_cuts on audit_checkpoints (chain_id, seq) where kind = 'cut';
select protect_table('audit_checkpoints',
  'chain_id = any((select app_org_ids())::uuid[]) or chain_id = (select app_partner_id())', 'false', 'select');
grant insert on audit_checkpoints to svc_system;
create trigger audit_checkpoints_append_only before update or delete or truncate on audit_checkpoints
  for each statement execute function refuse_audit_change();

-- Pruning takes the oldest rows of a chain without a gap, after a checkpoint of kind cut was written for the last of
-- them, and then takes the prev_checksum from the first that is left.
grant select, delete, update (prev_checksum) on audit_logs to svc_audit_admin;
grant select, update on audit_chain_heads to svc_audit_admin;
grant select, insert on audit_checkpoints to svc_audit_admin;
create policy pruning on audit_logs to svc_audit_admin using (true) with check (true);
create policy pruning on audit_chain_heads to svc_audit_admin using (true) with check (true);
create policy pruning on audit_checkpoints to svc_audit_admin using (true) with check (true);

create function check_audit_prune() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  if exists (
    select from (select chain_id, max(seq) as through from pruned group by chain_id) p
    where exists (select from audit_logs l where l.chain_id = p.chain_id and l.seq < p.through)
      or not exists (
        select from audit_checkpoints c join pruned last on last.chain_id = c.chain_id and last.seq = c.seq
          and last.checksum = c.checksum
        where c.chain_id = p.chain_id and c.seq = p.through and c.kind = 'cut'))
  then
    raise exception 'only the oldest entries of a chain can be pruned, up to a checkpoint of kind cut'
      using errcode = 'insufficient_privilege';
  end if;
  return null;
end
$$;
create trigger audit_logs_prune after delete on audit_logs
  referencing old table as pruned for each statement execute function check_audit_prune();

create function check_audit_first() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  if new.prev_checksum is not null
    or exists (select from audit_logs l where l.chain_id = old.chain_id and l.seq < old.seq)
    or not exists (
      select from audit_checkpoints c
      where c.chain_id = old.chain_id and c.seq = old.seq - 1 and c.checksum = old.prev_checksum and c.kind = 'cut')
  then
    raise exception 'only the first entry that pruning has left can lose its prev_checksum'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;
create trigger audit_logs_first before update on audit_logs
  for each row execute function check_audit_first();

-- The people and the resources that each chain names, noted as entries are sealed: few rows, in which a part of a name
-- is looked for before entries are. They prove nothing, and may name what was pruned since.
create table audit_actors (
  chain_id uuid not null,
  actor_id uuid not null,
  actor_email varchar(255),
  unique nulls not distinct (chain_id, actor_id, actor_email)
);
select protect_table('audit_actors', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
-- Names leave with the last entry that uses them.
grant insert, delete on audit_actors to svc_system;

create table audit_resources (
  chain_id uuid not null,
  -- In the order in which they were noted, by which it is known what is on a sheet already.
  no bigint generated always as identity,
  resource_type varchar(50) not null,
  resource_name varchar(255),
  unique nulls not distinct (chain_id, resource_type, resource_name)
);
create index audit_resources_as_noted on audit_resources (chain_id, no);
select protect_table('audit_resources', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
grant insert, delete on audit_resources to svc_system;

-- A part of a name is looked for in sheets of names instead of name by name (docs/decisions/audit-reading.md): no index
-- over the text can serve under row level security, so what serves is to make the reading cheap. They have every name
-- of `audit_resources` up to the highest `through` of its chain, some dozens of one type to a sheet.
create table audit_name_sheets (
  chain_id uuid not null,
  resource_type varchar(50) not null,
  through bigint not null,
  sheet integer not null,
  names varchar(255)[] not null,
  -- The type and the names in small letters and in one text.
  small_letters text not null,
  primary key (chain_id, through, resource_type, sheet)
);
select protect_table('audit_name_sheets', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
grant insert, delete on audit_name_sheets to svc_system;

-- For how long an organization keeps its audit entries (SPEC 2.15). Where it has no row, the defaults of the server
-- apply.
create table audit_retention_policies (
  org_id uuid primary key references organizations (id),
  -- At least a month: a person who got hold of an account cannot have its trail removed the next day.
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
