-- The progress of backups and restores as dashboards show it while it happens (docs/decisions/job-feed.md), and what it
-- takes to notice that one goes on no more.

alter table backup_jobs
  -- Bytes in a second.
  add column rate bigint,
  add column eta_seconds bigint,
  -- When the device last reported something else than before.
  add column advanced_at timestamptz(3),
  -- Since when a job that runs has not advanced; null while it does.
  add column stalled_since timestamptz(3);
alter table backup_restores
  add column advanced_at timestamptz(3),
  add column stalled_since timestamptz(3);

create index backup_restores_open on backup_restores (device_id) where finished_at is null;

-- What differs between two reports is an advance: restic reports every second, also while nothing moves.
create function has_advanced(earlier_status text, earlier jsonb, later_status text, later jsonb) returns boolean
language sql immutable set search_path = pg_catalog, public as $$
  select earlier_status <> later_status
    or (earlier - '{rate,etaSeconds,message}'::text[]) is distinct from (later - '{rate,etaSeconds,message}'::text[])
$$;

grant create on schema public to svc_system;
set local role svc_system;
create or replace function follow_backup_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  followed uuid;
  has_moved boolean := has_advanced(old.status, old.progress, new.status, new.progress);
begin
  update backup_jobs set
    status = case when new.status in ('accepted', 'running') then 'running' else status end,
    started_at = case when new.status in ('accepted', 'running') then coalesce(started_at, now()) else started_at end,
    phase = coalesce(left(new.progress ->> 'phase', 50), phase),
    percent = coalesce((new.progress ->> 'percent')::real, percent),
    done_bytes = coalesce(trunc((new.progress ->> 'done')::numeric)::bigint, done_bytes),
    total_bytes = coalesce(trunc((new.progress ->> 'total')::numeric)::bigint, total_bytes),
    done_files = coalesce(trunc((new.progress ->> 'filesDone')::numeric)::bigint, done_files),
    total_files = coalesce(trunc((new.progress ->> 'filesTotal')::numeric)::bigint, total_files),
    -- These are of this moment: the ones before say nothing about it.
    rate = trunc((new.progress ->> 'rate')::numeric)::bigint,
    eta_seconds = trunc((new.progress ->> 'etaSeconds')::numeric)::bigint,
    current_path = left(new.progress ->> 'path', 4096),
    last_progress_at = now(),
    advanced_at = case when has_moved then now() else advanced_at end,
    stalled_since = case when has_moved then null else stalled_since end,
    updated_at = now()
  where command_id = new.id and finished_at is null
  returning id into followed;
  if new.finished_at is null then
    return null;
  end if;
  if followed is null then
    -- Its job has ended, by a time limit for example, before the device reported.
    select id into followed from backup_jobs where command_id = new.id;
  end if;
  if followed is not null then
    perform enqueue_job(gen_random_uuid(), 'backup.settle',
      new.id || case when new.late_result is null then '' else ' late' end, null,
      jsonb_build_object('jobId', followed, 'commandId', new.id), null, 0, 30 * 24 * 3600, 20);
  end if;
  return null;
end
$$;
reset role;
revoke create on schema public from svc_system;

-- Beside `follow_restore_command`, which has the progress itself.
create function follow_restore_advance() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  if has_advanced(old.status, old.progress, new.status, new.progress) then
    update backup_restores set advanced_at = now(), stalled_since = null where command_id = new.id;
  end if;
  return null;
end
$$;
revoke execute on function follow_restore_advance() from public;
grant create on schema public to svc_system;
alter function follow_restore_advance() owner to svc_system;
revoke create on schema public from svc_system;

-- Announces the rows of a statement that are shown, so that no way to change them can be forgotten. The servers listen on
-- the channel `muster_long_work`. The argument is the kind of the work. Rows that ended before, and stay as they ended,
-- are not announced. A notification holds 8000 bytes.
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
create trigger backup_jobs_work_added after insert on backup_jobs
  referencing new table as changed for each statement execute function announce_long_work('backup');
create trigger backup_jobs_work after update on backup_jobs
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('backup');
create trigger backup_restores_work_added after insert on backup_restores
  referencing new table as changed for each statement execute function announce_long_work('restore');
create trigger backup_restores_work after update on backup_restores
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('restore');
create trigger backup_verifications_work_added after insert on backup_verifications
  referencing new table as changed for each statement execute function announce_long_work('verification');
create trigger backup_verifications_work after update on backup_verifications
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('verification');

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
create trigger backup_encryption_keys_work after update of status, version on backup_encryption_keys
  for each row when ((old.status, old.version) is distinct from (new.status, new.version))
  execute function announce_part_of_long_work('key_rotation', 'id');
create trigger backup_repositories_work after update of key_version, has_old_keys on backup_repositories
  for each row when ((old.key_version, old.has_old_keys) is distinct from (new.key_version, new.has_old_keys))
  execute function announce_part_of_long_work('key_rotation', 'encryption_key_id');
