-- What became of each upgrade of a device (SPEC 3, SHAPES 10), and notices of whatever decides which upgrades are offered.

-- One row for each attempt. A request of a person is a row as well: it is `offered` until the device begins with it.
create table device_upgrades (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  component text not null check (component in ('agent', 'watchdog')),
  -- As the device names its attempt; the id of the row where it does not, and while nothing has begun.
  attempt_id uuid not null,
  from_version varchar(50),
  target_version varchar(50) not null,
  state text not null check (state in
    ('offered', 'downloading', 'verifying', 'installing', 'restarting', 'completed', 'failed', 'rolled_back')),
  code varchar(64),
  error varchar(2000),
  -- The rollout in which the device was upgraded.
  rollout_id uuid,
  -- Whether a person has asked for it.
  by_hand boolean not null default false,
  -- How many attempts of the device at this version have failed in a row, this one included.
  failures integer not null default 0,
  -- The version is not offered again before this time.
  retry_at timestamptz(3),
  started_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  constraint device_upgrades_end check ((finished_at is not null) = (state in ('completed', 'failed', 'rolled_back'))),
  constraint device_upgrades_attempt unique (device_id, component, attempt_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index device_upgrades_of_device on device_upgrades (device_id, started_at desc, id desc);
create index device_upgrades_by_age on device_upgrades (org_id, started_at);
-- The few that every server holds in memory.
create index device_upgrades_open on device_upgrades (device_id) where finished_at is null;
create index device_upgrades_held_back on device_upgrades (retry_at) where retry_at is not null;
create index device_upgrades_of_rollout on device_upgrades (rollout_id, state) where rollout_id is not null;

select protect_table('device_upgrades', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on device_upgrades to svc_system;

-- A device that moves takes its rows along through these keys, which work in the order in which they were made; that of
-- presence has to be the last (docs/decisions/migrations.md). 0070 validates it.
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;

-- Every server answers heartbeats from memory. A change of what the answers are made of is announced here, in its
-- transaction, to all servers (docs/decisions/agent-upgrade-offers.md). Arguments: the kind of what has changed, and the
-- column with its id; without a column, all of that kind are read again.
create function announce_upgrade_change() returns trigger language plpgsql set search_path = pg_catalog, public as $$
declare
  changed jsonb;
begin
  if tg_level = 'ROW' then
    changed := to_jsonb(case when tg_op = 'DELETE' then old else new end);
  end if;
  perform pg_notify('muster_upgrades', json_build_object('kind', tg_argv[0], 'id', changed ->> tg_argv[1])::text);
  return null;
end;
$$;

create trigger organizations_upgrades after insert on organizations
  for each row execute function announce_upgrade_change('organization', 'id');
create trigger organizations_upgrades_changed after update of settings, partner_id, deleted_at on organizations
  for each row when (
    (old.settings -> 'agentUpdates', old.partner_id, old.deleted_at) is distinct from
    (new.settings -> 'agentUpdates', new.partner_id, new.deleted_at))
  execute function announce_upgrade_change('organization', 'id');
create trigger partners_upgrades after insert on partners
  for each row execute function announce_upgrade_change('partner', 'id');
create trigger partners_upgrades_changed after update of settings, deleted_at on partners
  for each row when (
    (old.settings -> 'agentUpdates', old.deleted_at) is distinct from
    (new.settings -> 'agentUpdates', new.deleted_at))
  execute function announce_upgrade_change('partner', 'id');

create trigger agent_releases_upgrades after insert or update or delete on agent_releases
  for each statement execute function announce_upgrade_change('releases');
create trigger release_signing_keys_upgrades after insert or update or delete on release_signing_keys
  for each statement execute function announce_upgrade_change('releases');

create trigger device_upgrades_begun after insert on device_upgrades
  for each row execute function announce_upgrade_change('device', 'device_id');
create trigger device_upgrades_changed
  after update of target_version, state, by_hand, retry_at, finished_at on device_upgrades
  for each row when (
    (old.target_version, old.state = 'offered', old.by_hand, old.retry_at, old.finished_at) is distinct from
    (new.target_version, new.state = 'offered', new.by_hand, new.retry_at, new.finished_at))
  execute function announce_upgrade_change('device', 'device_id');
