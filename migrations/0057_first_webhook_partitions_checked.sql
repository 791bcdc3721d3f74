-- online
alter table webhook_events validate constraint webhook_events_first_partition;
alter table webhook_deliveries validate constraint webhook_deliveries_first_partition;
-- As the other partitions have it.
create unique index concurrently if not exists webhook_deliveries_former_key on webhook_deliveries (id, event_id);
