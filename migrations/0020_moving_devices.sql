-- A device may come to another organization, and what belongs to it comes along: the keys to `devices` with `on update
-- cascade` do that, in the order in which they were created. The key of presence has to be the last one, because
-- heartbeats of other devices wait for its row (docs/decisions/migrations.md, rule 7). `device_group_members` has no
-- such key: groups belong to an organization, and memberships end with the move.
alter table device_presence
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade;
