-- online
alter table device_presence validate constraint device_presence_device_fkey;
alter table backup_jobs validate constraint backup_jobs_types;
