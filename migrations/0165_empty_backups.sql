-- Backups of nothing (docs/decisions/backup-jobs.md), and what a backup leaves out.

alter table backup_jobs
  -- `{ count, paths: [{ path, message }] }`: the virtual file systems below its sources. Null: the device has not said.
  add column left_out jsonb;

alter table backup_snapshots
  -- The sources that were there and had no file. Null: the device has not said.
  add column empty_sources jsonb,
  -- Files are missing that a backup of these sources should have: it has none at all, or none of a source of which an
  -- earlier snapshot has some.
  add column lacks_files boolean not null default false;
