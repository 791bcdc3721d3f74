-- What a script expects (src/features/scripts/script-parameters.ts), and since when a device has a software.

alter table scripts add column parameters jsonb not null default '[]';

-- Null for what was there before this was recorded. Whoever adds a row sets it: a default would make all rows of earlier
-- inventories as old as this migration.
alter table device_software add column first_seen_at timestamptz(3);
