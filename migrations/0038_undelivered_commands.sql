-- online
-- Each server looks from time to time for work that its devices were never told of, because whoever took it died or could
-- not reach them. Most of the time this index is empty, or holds the work of devices that are away.
create index concurrently if not exists commands_undelivered on commands (device_id)
  where status = 'queued' or cancel_requested_at is not null and status in ('dispatched', 'accepted', 'running');
