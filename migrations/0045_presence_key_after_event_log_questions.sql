-- online
alter table device_presence validate constraint device_presence_device_fkey;
