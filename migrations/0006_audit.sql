-- An audit trail that can be proven (docs/decisions/audit-chain.md). An entry is written to the outbox in the
-- transaction of its deed; the sealer moves it to audit_logs, where every row carries the checksum of the one before
-- it; the head of each chain is signed.

do $$
begin
  if not exists (select from pg_roles where rolname = 'svc_audit_admin') then
    begin
      -- Prunes, and nothing else. The operator lets it sign in.
      create role svc_audit_admin nologin noinherit nosuperuser nobypassrls nocreatedb nocreaterole;
    exception when duplicate_object or unique_violation then null;
    end;
  end if;
end
$$;
grant usage on schema public to svc_audit_admin;

-- Only the names of audit_logs are repeated here, and its keys to other tables: whatever got in here can be sealed.
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
);
-- A queue: what it holds is little, and what has gone through it much.
alter table audit_outbox set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index audit_outbox_by_chain on audit_outbox (chain_id, position);

-- What was written before there was a chain is sealed first, in its order. An owner who is no superuser sees the rows
-- of his own tables only while he is not forced to go by their policies.
alter table audit_logs no force row level security;
insert into audit_outbox (id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
  resource_id, resource_name, details, ip_address, user_agent, result, error_message)
select id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
  resource_id, resource_name, details, ip_address, user_agent, result, error_message
from audit_logs order by "timestamp", id;
delete from audit_logs;
alter table audit_logs force row level security;

-- Tenants write to it and do not see it.
select protect_table('audit_outbox',
  'org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_id())', null, 'insert');
grant select, delete on audit_outbox to svc_system;

-- A chain is an organization's, or a partner's for what concerns no organization of it. Rows of neither, which older
-- releases wrote, are the chain of the zero UUID.
alter table audit_logs
  add column chain_id uuid not null generated always as (
    coalesce(org_id, partner_id, '00000000-0000-0000-0000-000000000000')) stored,
  add column seq bigint not null check (seq > 0),
  add column checksum varchar(128) not null,
  -- Null on the first row, and on the first one that pruning has left.
  add column prev_checksum varchar(128),
  add constraint audit_logs_place unique (chain_id, seq),
  -- Nothing can follow the same row twice: a fork is impossible, whoever writes and whatever locks were taken.
  add constraint audit_logs_no_fork unique nulls not distinct (chain_id, prev_checksum);

-- The outbox has checked that organization and partner are there and belong together, and neither is ever removed:
-- checked again, each entry would lock both rows twice for nothing.
alter table audit_logs
  drop constraint audit_logs_org_id_fkey,
  drop constraint audit_logs_partner_id_fkey,
  drop constraint audit_logs_partner_id_org_id_fkey;

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

select protect_table('audit_chain_heads',
  'chain_id = any((select app_org_ids())::uuid[]) or chain_id = (select app_partner_id())', 'false', 'select');
select protect_table('audit_checkpoints',
  'chain_id = any((select app_org_ids())::uuid[]) or chain_id = (select app_partner_id())', 'false', 'select');
grant insert, update on audit_chain_heads to svc_system;
grant insert on audit_checkpoints to svc_system;

-- Requests read entries and write none. An earlier release that still does is led to the outbox.
drop policy tenant on audit_logs;
create policy tenant on audit_logs to svc_app
  using (org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_id())))
  with check (false);

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

-- What is written stays. These hold for everyone, the owner and superusers too, for as long as they are not disabled;
-- what is changed then is found by the chain.
create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'the audit trail is only added to: % on % is refused', lower(tg_op), tg_table_name
    using errcode = 'insufficient_privilege';
end
$$;
create trigger audit_logs_append_only before update or delete on audit_logs
  for each statement when (current_user <> 'svc_audit_admin') execute function refuse_audit_change();
create trigger audit_logs_no_truncate before truncate on audit_logs
  for each statement execute function refuse_audit_change();
create trigger audit_outbox_no_change before update or truncate on audit_outbox
  for each statement execute function refuse_audit_change();
create trigger audit_outbox_sealer_only before delete on audit_outbox
  for each statement when (current_user <> 'svc_system') execute function refuse_audit_change();
create trigger audit_checkpoints_append_only before update or delete or truncate on audit_checkpoints
  for each statement execute function refuse_audit_change();
create trigger audit_chain_heads_stay before delete or truncate on audit_chain_heads
  for each statement execute function refuse_audit_change();
create trigger audit_chain_heads_sealer_only before update on audit_chain_heads
  for each statement when (current_user not in ('svc_system', 'svc_audit_admin'))
  execute function refuse_audit_change();
create trigger audit_chain_heads_go_forward before update on audit_chain_heads
  for each row when (new.seq < old.seq or new.number < old.number) execute function refuse_audit_change();
create trigger audit_signing_keys_stay before delete or truncate on audit_signing_keys
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
