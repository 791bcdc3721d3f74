-- online
alter table device_upgrades validate constraint device_upgrades_state_check;
