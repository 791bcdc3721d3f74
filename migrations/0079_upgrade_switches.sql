-- Whether a device may upgrade by itself is announced to all servers as well, as 0062 does with what decides about many.
create trigger devices_upgrades after update of auto_update on devices
  for each row when (old.auto_update is distinct from new.auto_update)
  execute function announce_upgrade_change('device', 'id');

-- What the watchdog says about the agent that it runs; null where it has said nothing.
alter table devices
  add column agent_state varchar(20),
  add column agent_state_message varchar(2000),
  add column agent_state_since timestamptz(3);
