-- The events of webhooks and their deliveries lie in partitions from now on (0056_partitions_by_id.sql). The tables of the
-- former release become the first partitions, and hand their names to what they are a part of: both releases write and
-- read the same rows by the same names and with the same columns, at every moment.
do $$
declare
  ends text;
begin
  select substring(pg_get_constraintdef(oid) from $re$'([^']+)'$re$) into strict ends
  from pg_constraint where conname = 'webhook_events_first_partition';

  -- In the order in which servers lock them.
  alter table webhook_events rename to webhook_events_former;
  alter table webhook_deliveries rename to webhook_deliveries_former;

  -- No table here has keys to others: a new partition with one would lock these, and a dropped one too. Events are
  -- written by functions that have just read their owner, which is never removed. Deliveries end with their webhook and
  -- with their event by the triggers below, or with the partition of the event.
  create table webhook_events (
    id uuid not null constraint webhook_events_key primary key,
    partner_id uuid not null,
    -- Null where it concerns the partner itself.
    org_id uuid,
    type varchar(64) not null,
    data jsonb not null,
    created_at timestamptz(3) not null default now(),
    -- When its deliveries were added.
    fanned_out_at timestamptz(3)
  ) partition by range (id);
  create index webhook_events_to_fan_out on webhook_events (id) where fanned_out_at is null;
  perform protect_table('webhook_events',
    'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))',
    null, 'select');
  grant insert, update, delete on webhook_events to svc_system;

  create table webhook_deliveries (
    id uuid not null,
    partner_id uuid not null,
    org_id uuid,
    webhook_id uuid not null,
    event_id uuid not null,
    -- The constraints have the names of those of the former table, without which it could not become a partition.
    status text not null default 'pending'
      constraint webhook_deliveries_status_check check (status in ('pending', 'delivered', 'failed')),
    is_replay boolean not null default false,
    attempts integer not null default 0,
    next_attempt_at timestamptz(3) default now(),
    last_attempt_at timestamptz(3),
    -- Of the last attempt.
    response_status integer,
    response_excerpt varchar(1024),
    duration_ms integer,
    error varchar(300),
    created_at timestamptz(3) not null default now(),
    ended_at timestamptz(3),
    constraint webhook_deliveries_check check ((next_attempt_at is not null) = (status = 'pending')),
    constraint webhook_deliveries_check1 check ((ended_at is null) = (status = 'pending'))
  ) partition by range (event_id);
  create unique index webhook_deliveries_key on webhook_deliveries (id, event_id);
  create index webhook_deliveries_of_webhook_newest on webhook_deliveries (webhook_id, created_at desc, id desc);
  create index webhook_deliveries_of_webhook_waiting on webhook_deliveries (webhook_id, next_attempt_at, id)
    where status = 'pending';
  perform protect_table('webhook_deliveries',
    'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))',
    null, 'select, insert, update');
  grant delete on webhook_deliveries to svc_system;

  execute format('alter table webhook_events attach partition webhook_events_former for values from (minvalue) to (%L)',
    ends);
  execute format(
    'alter table webhook_deliveries attach partition webhook_deliveries_former for values from (minvalue) to (%L)', ends);
  -- The bounds of the partitions say the same.
  alter table webhook_events_former drop constraint webhook_events_first_partition;
  alter table webhook_deliveries_former drop constraint webhook_deliveries_first_partition;
  -- What they say is kept by the triggers below, for all partitions alike.
  alter table webhook_deliveries_former
    drop constraint webhook_deliveries_partner_id_webhook_id_fkey,
    drop constraint webhook_deliveries_org_id_webhook_id_fkey,
    drop constraint webhook_deliveries_partner_id_event_id_fkey;
  -- Reached by way of the tables, as all partitions are.
  drop policy tenant on webhook_events_former;
  drop policy tenant on webhook_deliveries_former;
  revoke all on webhook_events_former, webhook_deliveries_former from svc_app;

  -- For what no partition takes: the clock of the database was weeks ahead, or the job that creates partitions has not run
  -- for weeks, as under the former release. Without a place for an event, the change that it tells of would be refused.
  create table webhook_events_rest partition of webhook_events default;
  create table webhook_deliveries_rest partition of webhook_deliveries default;
  perform protect_table('webhook_events_rest', null);
  perform protect_table('webhook_deliveries_rest', null);
  perform add_partitions('webhook_events', time_of_row_id(ends::uuid), time_of_row_id(ends::uuid));
  perform add_partitions('webhook_deliveries', time_of_row_id(ends::uuid), time_of_row_id(ends::uuid));
end
$$;

create function delete_deliveries_of_webhook() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  delete from webhook_deliveries where webhook_id = old.id;
  return null;
end
$$;
revoke execute on function delete_deliveries_of_webhook() from public;

-- Row by row end the events of the former tables, those of `webhook_events_rest`, and all while the former release runs.
create function delete_deliveries_of_events() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  -- As values, so that only the partitions are read that have deliveries of these events.
  ids constant uuid[] := array(select id from gone);
  partners constant uuid[] := array(select distinct partner_id from gone);
begin
  delete from webhook_deliveries where partner_id = any(partners) and event_id = any(ids);
  return null;
end
$$;
revoke execute on function delete_deliveries_of_events() from public;

grant create on schema public to svc_system;
alter function delete_deliveries_of_webhook() owner to svc_system;
alter function delete_deliveries_of_events() owner to svc_system;
revoke create on schema public from svc_system;
create trigger webhooks_delete_deliveries after delete on webhooks
  for each row execute function delete_deliveries_of_webhook();
create trigger webhook_events_delete_deliveries after delete on webhook_events
  referencing old table as gone for each statement execute function delete_deliveries_of_events();
create trigger webhook_events_delete_deliveries after delete on webhook_events_former
  referencing old table as gone for each statement execute function delete_deliveries_of_events();
create trigger webhook_events_delete_deliveries after delete on webhook_events_rest
  referencing old table as gone for each statement execute function delete_deliveries_of_events();
