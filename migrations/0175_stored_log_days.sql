-- What each device has had stored of its logs, by the day (UTC) on which it arrived: the budgets of devices and
-- organizations count these rows instead of the logs themselves (docs/decisions/log-budgets.md).
create table stored_log_days (
  device_id uuid not null,
  org_id uuid not null,
  day date not null,
  entries bigint not null default 0,
  bytes bigint not null default 0,
  primary key (device_id, day),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index stored_log_days_of_organization on stored_log_days (org_id, day) include (entries, bytes);

select protect_table('stored_log_days', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on stored_log_days to svc_system;

-- A device that moves takes its presence along last (docs/decisions/migrations.md, rule 7). 0176 validates the key.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
