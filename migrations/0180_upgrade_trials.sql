-- A release that a device runs on trial, and whose end only its watchdog reports (docs/decisions/agent-upgrade-offers.md).
-- Releases of the server before this one never write the state, and count an attempt in it as one that has not ended.
alter table device_upgrades
  drop constraint device_upgrades_state_check,
  add constraint device_upgrades_state_check check (state in
    ('offered', 'downloading', 'verifying', 'installing', 'restarting', 'trial', 'completed', 'failed', 'rolled_back'))
    not valid;
