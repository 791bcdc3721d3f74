-- online
alter table device_presence validate constraint device_presence_device_fkey;
-- For the check that ends the status `updating`; most of the time it is empty.
create index concurrently if not exists devices_updating on devices (id) where condition = 'updating';
