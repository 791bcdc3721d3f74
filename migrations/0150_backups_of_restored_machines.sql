-- A machine that was made of a snapshot is backed up itself, so that a failback brings it back as it is (SHAPES 14).

create or replace trigger commands_of_backups after update of status, progress, late_result on commands
  for each row when (
    new.type in ('backup.run', 'backup.database', 'backup.image', 'backup.machine', 'backup.vm-save')
    and (old.status, old.progress, old.late_result) is distinct from (new.status, new.progress, new.late_result))
  execute function follow_backup_command();
