-- Rows of snapshots follow what is really in their repositories (docs/decisions/backup-care.md).

-- Of a snapshot: when it was last tried, and could not be read. It is tried again some time later.
alter table backup_objects add column unreadable_at timestamptz(3);
