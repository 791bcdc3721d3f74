-- online
alter table device_event_logs validate constraint device_event_logs_first_partition;
alter table agent_logs validate constraint agent_logs_first_partition;
-- As the other partitions have it.
create unique index concurrently if not exists device_event_logs_known on device_event_logs (device_id, event_id, source);
