-- What is free where the backups of a device are stored outside of the backup store, so that somebody hears of it before
-- a backup does not fit any more (docs/decisions/backup-care.md).

alter table backup_repositories
  -- As the device has found it after its last backup; 0 where that did not fit. Null: not known.
  add column destination_free_bytes bigint check (destination_free_bytes >= 0),
  add column destination_total_bytes bigint check (destination_total_bytes >= 0);
