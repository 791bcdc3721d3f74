-- A device that no longer waits for approval: servers that know its token know it as one that waits.
create trigger devices_access after update of condition on devices
  for each row when (old.condition = 'pending' and new.condition <> 'pending')
  execute function announce_access_change('agent', 'id');
