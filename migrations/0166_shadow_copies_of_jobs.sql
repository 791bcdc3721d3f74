-- Whether files were read from shadow copies, as the device has reported it: `{ used, problems: [{ volume, message }],
-- isCut? }`. Null: not of files on Windows, or the device has not said.
alter table backup_jobs add column shadow_copies jsonb;
