-- What the backup store has received with a backup, whatever its device says of it: a device that was taken over can say
-- that nothing has changed (docs/decisions/backup-care.md).

alter table backup_snapshots
  -- Of packs, as they are stored. Null: elsewhere, or of a snapshot from before.
  add column received_bytes bigint check (received_bytes >= 0);
