-- Alerts go to an address of one's own choice once its owner has given back the code that was mailed to it. The address that
-- was verified is stored, and not that it was: an earlier release changes the address alone.
alter table notification_settings
  add column verified_address varchar(255),
  add column address_code_hash varchar(64),
  add column address_code_ends_at timestamptz(3);
-- Addresses that are in use stay so.
update notification_settings set verified_address = address where address is not null;
