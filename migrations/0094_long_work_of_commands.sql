-- What devices report about commands, for the work that the commands belong to. A file of its own, because `commands` is
-- a big table.

-- The payload of a test restore names its verification.
create function announce_verification_progress() returns trigger language plpgsql
set search_path = pg_catalog, public as $$
begin
  perform pg_notify('muster_long_work',
    json_build_object('kind', 'verification', 'ids', json_build_array(new.payload ->> 'verificationId'))::text);
  return null;
end
$$;
create trigger commands_of_verifications after update of status, progress on commands
  for each row when (new.type = 'backup.verify'
    and (old.status, old.progress) is distinct from (new.status, new.progress))
  execute function announce_verification_progress();

create trigger commands_of_restores_advance after update of status, progress on commands
  for each row when (new.type = 'backup.restore'
    and (old.status, old.progress) is distinct from (new.status, new.progress))
  execute function follow_restore_advance();
