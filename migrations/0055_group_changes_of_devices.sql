-- online
create index concurrently if not exists device_group_changes_of_device on device_group_changes (org_id, device_id, at desc);
