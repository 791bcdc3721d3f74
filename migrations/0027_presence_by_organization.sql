-- Presence of a tenant's devices, read together: a look into the key for each device was most of what a preview or a list
-- took. An organization does not change with heartbeats, so that they stay heap-only.
create index device_presence_by_org on device_presence (org_id);

-- With the condition, which statuses are made of, so that a list in their order reads no record either.
drop index devices_listed;
create index devices_listed on devices (org_id, lower(hostname), id) include (hostname, condition)
  where condition <> 'decommissioned';

-- What it served goes through devices_listed, but for those out of service, which are few and put in order at once.
drop index devices_by_hostname;
