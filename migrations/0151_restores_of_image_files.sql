-- Restores of files out of images (docs/decisions/machine-images.md). The triggers of 0098 follow their command,
-- `backup.image-files-restore`.

alter table backup_restores
  -- `{ machine?, disk, partition? }`: the volume that the files come out of. Null: a restore of something else.
  add column volume jsonb;
