-- A backup job follows its command (docs/decisions/backup-jobs.md): what a device reports is in the job with the same
-- statement, and the end of the command adds the background job that settles the backup job, whoever ended it.
create function follow_backup_command() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
declare
  followed uuid;
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
    current_path = coalesce(left(new.progress ->> 'path', 4096), current_path),
    last_progress_at = now(),
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
revoke execute on function follow_backup_command() from public;
grant create on schema public to svc_system;
alter function follow_backup_command() owner to svc_system;
revoke create on schema public from svc_system;
create trigger commands_of_backups after update of status, progress, late_result on commands
  for each row when (new.type = 'backup.run'
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_backup_command();

-- What waits for its device or its turn.
create index backup_jobs_waiting on backup_jobs (due_at, id) where finished_at is null and command_id is null;
-- How many of a configuration run.
create index backup_jobs_handed_over on backup_jobs (config_id) where finished_at is null and command_id is not null;
