-- Restores of disks out of images (SHAPES 12; docs/decisions/machine-images.md). The triggers of 0098 follow their command,
-- `backup.image-restore`.

alter table backup_restores
  -- `{ disk?, grow }`. Null: a restore of something else.
  add column image jsonb;
