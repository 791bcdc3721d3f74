-- What the daily removal of old rows needs (docs/decisions/row-life.md). The indexes that serve it are built online, in
-- 0042.

-- For how many days ended commands and resolved alerts are kept. Constant defaults: no row is rewritten, and a release
-- before this one writes rows without them.
alter table log_retention
  add column command_days integer not null default 90 check (command_days between 1 and 3650),
  add column alert_days integer not null default 365 check (alert_days between 1 and 3650);

-- Across tenants only: no request deletes these. The steps of a command go with it, by their key.
grant delete on commands, alerts to svc_system;
-- Names leave with the last entry that uses them.
grant delete on audit_actors, audit_resources to svc_system;

-- A device that moves takes its rows along through these keys, which work in the order in which they were made. The one
-- of presence has to be the last, because heartbeats of other devices wait for its row (0019). The keys of 0021 and 0022
-- came behind it, and one of them rewrites the software of the device. NOT VALID adds it without reading the table; 0042
-- validates it.
alter table device_presence
  drop constraint device_presence_org_id_device_id_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
