-- online
-- Each serves the removal of one kind of old rows, and holds only what will be removed one day.
create index concurrently if not exists commands_ended on commands (org_id, finished_at) where finished_at is not null;
create index concurrently if not exists alerts_ended on alerts (org_id, resolved_at)
  where status = 'resolved' and not cause_lasts;
create index concurrently if not exists agent_credentials_revoked on agent_credentials (org_id, revoked_at)
  where revoked_at is not null;
create index concurrently if not exists device_group_changes_by_age on device_group_changes (org_id, at);
create index concurrently if not exists sessions_by_end on sessions (least(revoked_at, expires_at));
create index concurrently if not exists password_resets_by_end on password_resets (expires_at);
create index concurrently if not exists mfa_challenges_by_end on mfa_challenges (expires_at);
create index concurrently if not exists idempotency_keys_by_age on idempotency_keys (created_at);

alter table device_presence validate constraint device_presence_device_fkey;
