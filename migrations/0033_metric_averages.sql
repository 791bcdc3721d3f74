-- The averages of the figures of each device, for filters (docs/decisions/metrics.md). The job that packs samples keeps
-- them up to date, each hour.
create table device_metric_averages (
  device_id uuid primary key,
  org_id uuid not null,
  -- Of the last hours and days (UTC), the newest first, without gaps: for each the figures that
  -- src/features/metrics/averages.ts lists. `…_until` is the end of the newest.
  hours_until timestamptz(3),
  hours real[] not null default '{}',
  days_until timestamptz(3),
  days real[] not null default '{}',
  -- What conditions read, such as {"cpuPercent.1h": 12.5}.
  averages jsonb not null default '{}',
  foreign key (org_id, device_id) references devices (org_id, id) on update cascade on delete cascade
);
create index device_metric_averages_of_device on device_metric_averages (org_id, device_id);
select protect_table('device_metric_averages', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert, update, delete on device_metric_averages to svc_system;

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
