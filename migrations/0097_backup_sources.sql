-- Backups of more than files (SPEC 4.13, SHAPES 12): a snapshot says what it is.

alter table backup_snapshots
  -- `SnapshotDetails` of the protocol. Null: a snapshot of files.
  add column details jsonb;

create or replace trigger commands_of_backups after update of status, progress, late_result on commands
  for each row when (new.type in ('backup.run', 'backup.database', 'backup.image', 'backup.machine')
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_backup_command();
