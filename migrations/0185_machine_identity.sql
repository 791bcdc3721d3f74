-- Machines whose identity is in doubt (SHAPES 5), and inventories of which a source has failed.

alter table devices
  -- The machine id with which a device was enrolled while a connected device had it. The record of that one keeps
  -- `machine_id`, which is unique.
  add column claimed_machine_id varchar(128),
  -- When the host name last changed, so that a device cannot change it without end.
  add column renamed_at timestamptz(3);

-- The id under which an agent was enrolled, where its token opens another device, which it replaces. The agent goes on
-- using that id in its requests.
alter table agent_credentials add column enrolled_as uuid;

alter table device_inventory
  -- What could not be read for the newest inventory: a list of { source, message }.
  add column failed_sources jsonb not null default '[]';
alter table device_software
  -- What has reported the title, such as `dpkg`; null where the agent did not say.
  add column source varchar(50);
