-- Work: what the server does over a longer time, and what people wait for (docs/decisions/work.md). A row is one piece of
-- it, from the request until it is removed by age. The tables of features share its id, and hold the facts of their field.

-- Announces the rows of a statement that dashboards show while they change (docs/decisions/backup-jobs.md), so that no
-- way to change them can be forgotten. The servers listen on the channel `muster_long_work`. The argument is the kind
-- of the work. Rows that ended before, and stay as they ended, are not announced. A notification holds 8000 bytes.
create function announce_long_work() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  if tg_op = 'INSERT' then
    perform pg_notify('muster_long_work', json_build_object('kind', tg_argv[0], 'ids', json_agg(id))::text)
    from (select id, (row_number() over () - 1) / 150 as part from changed) as parts group by part;
  else
    perform pg_notify('muster_long_work', json_build_object('kind', tg_argv[0], 'ids', json_agg(id))::text)
    from (
      select c.id, (row_number() over () - 1) / 150 as part from changed c join former f on f.id = c.id
      where f.finished_at is null or c.finished_at is null or f.status <> c.status) as parts group by part;
  end if;
  return null;
end
$$;

-- The progress of these is in other tables. Arguments: the kind of the work, and the column with its id.
create function announce_part_of_long_work() returns trigger language plpgsql set search_path = pg_catalog, public as $$
declare
  id text := to_jsonb(new) ->> tg_argv[1];
begin
  if id is not null then
    perform pg_notify('muster_long_work', json_build_object('kind', tg_argv[0], 'ids', json_build_array(id))::text);
  end if;
  return null;
end
$$;

-- What differs between two reports is an advance: restic reports every second, also while nothing moves.
create function has_advanced(earlier_status text, earlier jsonb, later_status text, later jsonb) returns boolean
language sql immutable set search_path = pg_catalog, public as $$
  select earlier_status <> later_status
    or (earlier - '{rate,etaSeconds,message}'::text[]) is distinct from (later - '{rate,etaSeconds,message}'::text[])
$$;

-- The same for work, whose rows say their kind.
create function announce_work() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  if tg_op = 'INSERT' then
    perform pg_notify('muster_long_work', json_build_object('kind', kind, 'ids', json_agg(id))::text)
    from (select kind, id, (row_number() over (partition by kind) - 1) / 150 as part from changed) as parts
    group by kind, part;
  else
    perform pg_notify('muster_long_work', json_build_object('kind', kind, 'ids', json_agg(id))::text)
    from (
      select c.kind, c.id, (row_number() over (partition by c.kind) - 1) / 150 as part
      from changed c join former f on f.id = c.id
      -- A device that moves takes its work with it.
      where (f.status, f.progress, f.stalled_since, f.error_message, f.org_id)
        is distinct from (c.status, c.progress, c.stalled_since, c.error_message, c.org_id)) as parts
    group by kind, part;
  end if;
  return null;
end
$$;

create table work (
  id uuid primary key,
  -- As in src/features: `verification`.
  kind varchar(64) not null,
  -- Null: work of the platform itself.
  partner_id uuid references partners (id),
  org_id uuid,
  device_id uuid,
  input jsonb not null,

  -- For people.
  status text not null default 'pending'
    check (status in ('pending', 'running', 'completed', 'partial', 'failed', 'cancelled')),
  -- As devices report it, and `WorkProgress` of the work itself.
  progress jsonb,
  -- When it last reported something else than before.
  advanced_at timestamptz(3),
  stalled_since timestamptz(3),
  error_code varchar(64),
  error_message varchar(2000),
  -- Null: by the server itself.
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  -- It is removed so many days after its end.
  kept_days smallint not null default 400,
  remove_on date generated always as ((finished_at at time zone 'UTC')::date + kept_days) stored,

  -- For the dispatcher. `ready`: a server may begin the step when it is due; `leased`: one has; `parked`: until the device
  -- connects; `device`: the command has it; `ended`.
  stage text not null default 'ready' check (stage in ('ready', 'leased', 'parked', 'device', 'ended')),
  step varchar(64) not null,
  due_at timestamptz(3) not null default now(),
  -- Wanted by a person, who waits.
  is_urgent boolean not null default false,
  -- What only so many may use at a time: a bucket, a receiver, a device.
  target varchar(1000),
  -- How many pieces of work may use the target at a time, if it is not what the kind says.
  target_limit smallint check (target_limit > 0),
  -- Only one piece of work of its kind with the same key is open.
  exclusive_key varchar(300),
  -- Of the step.
  attempt integer not null default 0,
  -- Grows with each claim. Whoever writes names the number of its own claim, so that a late writer changes nothing.
  fence bigint not null default 0,
  holder_id uuid,
  -- The newest command of the ledger.
  command_id uuid,
  -- The device has reported a result after the end of its command.
  has_late boolean not null default false,
  -- What an attempt has saved for the next one.
  checkpoint jsonb,
  -- Work that has not ended by then has failed, unless a device has it: a command has a time limit of its own.
  deadline_at timestamptz(3) not null,
  cancel_requested_at timestamptz(3),
  paused_at timestamptz(3),
  -- So many pieces of work that it waits for have not ended.
  blockers smallint not null default 0,
  -- One of them has not succeeded.
  is_broken boolean not null default false,
  -- Servers go round the turns: partners take turns, and full targets hold up only what needs them.
  turn bigint not null generated always as (hashtextextended(
    coalesce(partner_id::text, '') || ' ' || coalesce(target, ''), 0)) stored,
  unique (org_id, id),
  constraint work_end check ((finished_at is not null) = (status not in ('pending', 'running'))),
  constraint work_holder check ((stage = 'leased') = (holder_id is not null)),
  foreign key (partner_id, org_id) references organizations (partner_id, id) on update cascade,
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index work_claimable on work (kind, turn, is_urgent, due_at, id)
  where stage = 'ready' and paused_at is null and blockers = 0;
create index work_held on work (kind, partner_id, target) where stage in ('leased', 'device');
create index work_of_holder on work (holder_id) where stage = 'leased';
create index work_deadline on work (deadline_at) where stage in ('ready', 'parked') and paused_at is null;
create index work_parked on work (device_id) where stage = 'parked';
create unique index work_exclusive on work (kind, exclusive_key) where finished_at is null;
create index work_stalled on work (kind, device_id) where stalled_since is not null;
create index work_of_command on work (command_id) where command_id is not null;
create index work_of_org on work (org_id, kind, created_at desc, id desc);
create index work_of_device on work (org_id, device_id, kind, created_at desc, id desc) where device_id is not null;
create index work_of_partner on work (partner_id) where org_id is null;
create index work_by_age on work (org_id, remove_on) where finished_at is not null;
select protect_table('work',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))',
  null, 'select, insert, update');
grant delete on work to svc_system;
create trigger work_added after insert on work
  referencing new table as changed for each statement execute function announce_work();
create trigger work_changed after update on work
  referencing old table as former new table as changed
  for each statement execute function announce_work();

-- Work that waits until other work has ended.
create table work_dependencies (
  work_id uuid not null references work (id) on delete cascade,
  needed_id uuid not null references work (id) on delete cascade,
  -- Otherwise only its end counts.
  must_succeed boolean not null default true,
  primary key (work_id, needed_id)
);
create index work_dependencies_needed on work_dependencies (needed_id);
-- Whoever may see work may make it wait. A row at a time, because a request adds or frees few.
select protect_table('work_dependencies', 'exists (select from work w where w.id = work_id
  and (w.org_id = any((select app_org_ids())::uuid[])
    or (w.org_id is null and w.partner_id = (select app_partner_wide()))))', null, 'select, insert');

-- Work that ends, whatever ends it, frees what waits for it. A function of its own, because its statement also finds a
-- dependency that was added while the statement that ends the work waited for the lock of the work.
create function free_dependent_work() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  -- The update below runs this again, also where it changes nothing.
  if not exists (
    select from changed c join former f on f.id = c.id where f.finished_at is null and c.finished_at is not null
  ) then
    return null;
  end if;
  update work w set blockers = greatest(w.blockers - n.ended, 0), is_broken = w.is_broken or n.is_broken
  from (
    select d.work_id, count(*)::smallint as ended, bool_or(d.must_succeed and c.status <> 'completed') as is_broken
    from changed c join former f on f.id = c.id join work_dependencies d on d.needed_id = c.id
    where f.finished_at is null and c.finished_at is not null group by 1
  ) n where w.id = n.work_id and w.finished_at is null;
  return null;
end
$$;
revoke execute on function free_dependent_work() from public;
create trigger work_ended after update on work
  referencing old table as former new table as changed
  for each statement execute function free_dependent_work();

-- The processes that do work. One statement renews the lease of all that a process holds; what it held is taken over when
-- its time has passed, and then it may not come back under the same id.
create table work_holders (
  id uuid primary key,
  node_id text not null,
  alive_until timestamptz(3) not null
);
select protect_table('work_holders', null);

-- Work follows its command in the same transaction, whatever changes that: the progress of the device is the progress of
-- the work, and the end of the command makes the next step due. What a device reports later makes the work due once more,
-- at once or when the step has ended that records the end of the command.
create function follow_command_of_work() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  has_moved boolean := has_advanced(old.status, old.progress, new.status, new.progress);
begin
  if new.late_result is not null and old.late_result is null then
    update work set has_late = true, updated_at = now(),
      stage = case when stage in ('device', 'ended') then 'ready' else stage end,
      due_at = case when stage in ('device', 'ended') then now() else due_at end,
      attempt = case when stage in ('device', 'ended') then 0 else attempt end
    where id = new.work_id and command_id = new.id;
    return null;
  end if;
  update work set
    status = case when new.status in ('accepted', 'running') then 'running' else status end,
    started_at = case when new.status in ('accepted', 'running') then coalesce(started_at, now()) else started_at end,
    progress = coalesce(new.progress, progress),
    advanced_at = case when has_moved then now() else advanced_at end,
    stalled_since = case when has_moved then null else stalled_since end,
    stage = case when new.finished_at is null then stage else 'ready' end,
    due_at = case when new.finished_at is null then due_at else now() end,
    updated_at = now()
  where id = new.work_id and command_id = new.id and stage = 'device';
  return null;
end
$$;
revoke execute on function follow_command_of_work() from public;
create trigger commands_of_work after update of status, progress, late_result on commands
  for each row when (new.work_id is not null
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_command_of_work();

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function follow_command_of_work() owner to svc_system;
alter function free_dependent_work() owner to svc_system;
revoke create on schema public from svc_system;
