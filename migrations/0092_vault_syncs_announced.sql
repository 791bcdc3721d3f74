-- Announces syncs of vaults that are shown to dashboards (docs/decisions/job-feed.md), on the channel that the servers
-- listen on. Those that ended before, and stay as they ended, are not announced.
create function announce_vault_sync() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  perform pg_notify('muster_long_work',
    json_build_object('kind', 'vault_sync', 'ids', json_build_array(new.id))::text);
  return null;
end
$$;
create trigger backup_vault_syncs_work_added after insert on backup_vault_syncs
  for each row execute function announce_vault_sync();
create trigger backup_vault_syncs_work after update on backup_vault_syncs
  for each row when (old.finished_at is null or new.finished_at is null or old.status <> new.status)
  execute function announce_vault_sync();
