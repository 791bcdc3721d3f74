-- Agents over plain HTTP: machines whose socket is blocked, and tokens that are changed in two steps.

-- A device that reports without a connection counts as online until then. It stands beside the state of its
-- connection, which nobody who reports this way has; without an index, as all that a heartbeat changes here.
alter table device_presence add column reports_until timestamptz(3);

-- A staged token is one that the agent has been given and has not used yet. Its first use ends the one before it.
alter table agent_credentials add column staged boolean not null default false;
create unique index agent_credentials_staged on agent_credentials (device_id) where staged and revoked_at is null;
