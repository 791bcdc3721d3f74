-- online
-- The key that migration 0056 has added without looking at the sessions there were.
alter table sessions validate constraint sessions_sso_provider_fkey;
