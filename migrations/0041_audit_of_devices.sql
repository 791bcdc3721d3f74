-- online
-- What the timeline of a device shows of the audit trail (`changeTimeline` in src/features/audit/audit.queries.ts has the
-- same condition). Most entries about devices are commands and reads, which it does not show.
create index concurrently if not exists audit_logs_of_device on audit_logs (resource_id, "timestamp" desc, id desc)
  where resource_type = 'device' and action in ('device.approve', 'device.delete', 'device.maintenance', 'device.move',
    'device.process.end', 'device.renamed', 'device.restore', 'device.service.restart', 'device.service.start',
    'device.service.stop', 'device.update', 'device.upgrade');
alter table device_presence validate constraint device_presence_device_fkey;
