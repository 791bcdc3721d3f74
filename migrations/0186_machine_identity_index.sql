-- online
-- Which devices were enrolled with the machine id of another one.
create index concurrently if not exists devices_by_claim on devices (org_id, claimed_machine_id)
  where claimed_machine_id is not null;
