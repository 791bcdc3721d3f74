-- Releases of the agent and its companions, the upgrades of devices, and staged rollouts (SPEC 3, 4.12, 9.5 to 9.10,
-- SHAPES 10).

-- Every server answers heartbeats from memory. A change of what the answers are made of is announced here, in its
-- transaction, to all servers (docs/decisions/agent-update-targets.md). Arguments: the kind of what has changed, and
-- the column with its id; without a column, all of that kind are read again.
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

-- The private key is sealed with SECRET_ENCRYPTION_KEY: a database alone can neither sign nor make a key that counts.
create table release_signing_keys (
  id uuid primary key,
  public_key text not null,
  sealed_private_key text not null,
  -- A key that replaces another one is signed by it, so that devices that trust that one can trust this one too
  -- (docs/decisions/releases.md). Both are null for the first key, and for one that begins a new chain. Keys are never
  -- deleted.
  signed_by uuid,
  -- Ed25519 over the canonical JSON of the id, the public key and its purpose; base64url.
  signature varchar(100),
  created_at timestamptz(3) not null default now(),
  retired_at timestamptz(3)
);
create unique index release_signing_keys_current on release_signing_keys ((true)) where retired_at is null;
select protect_table('release_signing_keys', null, null, 'select, insert, update');
create trigger release_signing_keys_upgrades after insert or update or delete on release_signing_keys
  for each statement execute function announce_upgrade_change('releases');

-- One version of one component for one platform.
create table agent_releases (
  id uuid primary key,
  version varchar(20) not null check (version ~ '^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.(0|[1-9]\d*))?$'),
  component text not null check (component in ('agent', 'watchdog', 'helper', 'backup')),
  os text not null check (os in ('linux', 'windows', 'macos')),
  architecture text not null check (architecture in ('x64', 'arm64')),
  source text not null check (source in ('github', 'local')),
  size integer not null check (size > 0),
  sha256 char(64) not null check (sha256 ~ '^[0-9a-f]{64}$'),
  -- Ed25519 over the canonical manifest of the columns above without `source`; base64url.
  signature varchar(100) not null,
  key_id uuid not null references release_signing_keys (id),
  notes varchar(2000),
  is_prerelease boolean not null,
  promoted boolean not null default false,
  -- Where `github` serves the file. A `local` one is in DATA_DIR/releases under its SHA-256.
  download_url varchar(1000),
  created_at timestamptz(3) not null default now(),
  unique (version, component, os, architecture),
  constraint agent_releases_place check ((source = 'github') = (download_url is not null))
);
create unique index agent_releases_promoted on agent_releases (component, os, architecture) where promoted;
create index agent_releases_by_time on agent_releases (created_at, id);
create index agent_releases_by_file on agent_releases (sha256) where source = 'local';
create index agent_releases_by_key on agent_releases (key_id);
-- Every tenant sees them, as everyone does who downloads them; only the server writes them.
select protect_table('agent_releases', 'true', 'false', 'select');
grant insert, update, delete on agent_releases to svc_system;
create trigger agent_releases_upgrades after insert or update or delete on agent_releases
  for each statement execute function announce_upgrade_change('releases');

-- Versions that were fetched completely from GitHub. A version promotes itself once, when it is complete for the first
-- time, and the hourly job leaves it alone afterwards: an operator who took it back or deleted it has decided.
create table release_syncs (
  version varchar(20) primary key,
  completed_at timestamptz(3) not null default now()
);
select protect_table('release_syncs', null, null, 'select, insert');

-- How agents of an organization are upgraded depends on its partner's settings, of which its members may read nothing
-- else.
create function partner_agent_updates(wanted uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, public as $$
  select p.settings -> 'agentUpdates' from partners p
  where p.id = wanted
    and exists (select from organizations o where o.partner_id = p.id and o.id = any((select app_org_ids())::uuid[]))
$$;
revoke execute on function partner_agent_updates(uuid) from public;
grant execute on function partner_agent_updates(uuid) to svc_app, svc_system;

-- What decides about the upgrades of many devices, and whether one device may upgrade by itself.
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
create trigger devices_upgrades after update of auto_update on devices
  for each row when (old.auto_update is distinct from new.auto_update)
  execute function announce_upgrade_change('device', 'id');

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
  -- `trial`: the device runs the release on trial, whose end only its watchdog reports
  -- (docs/decisions/agent-update-targets.md).
  state text not null check (state in
    ('offered', 'downloading', 'verifying', 'installing', 'restarting', 'trial', 'completed', 'failed', 'rolled_back')),
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
create trigger device_upgrades_begun after insert on device_upgrades
  for each row execute function announce_upgrade_change('device', 'device_id');
create trigger device_upgrades_changed
  after update of target_version, state, by_hand, retry_at, finished_at on device_upgrades
  for each row when (
    (old.target_version, old.state = 'offered', old.by_hand, old.retry_at, old.finished_at) is distinct from
    (new.target_version, new.state = 'offered', new.by_hand, new.retry_at, new.finished_at))
  execute function announce_upgrade_change('device', 'device_id');

-- A device's place among 10,000 in a rollout, which is the same for ever. The code computes it as well (`placeOf`).
create function rollout_place(rollout uuid, device uuid) returns integer
language sql immutable strict parallel safe as $$
  select (('x' || encode(substring(sha256(uuid_send(rollout) || uuid_send(device)) from 1 for 4), 'hex'))::bit(32)::bigint
    % 10000)::integer
$$;

-- Staged rollouts: a release reaches the devices with the update policy `staged` in waves.
create table agent_rollouts (
  id uuid primary key,
  component text not null check (component in ('agent', 'watchdog')),
  version varchar(20) not null check (version ~ '^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.(0|[1-9]\d*))?$'),
  state text not null default 'running' check (state in ('running', 'paused', 'halted', 'aborted', 'completed')),
  -- [{ percent, soakMinutes }]: each wave's share of the fleet, and how long it is observed before the next one opens.
  waves jsonb not null check (jsonb_typeof(waves) = 'array' and jsonb_array_length(waves) > 0),
  failed_percent numeric(5, 2) not null check (failed_percent > 0 and failed_percent <= 100),
  silent_minutes integer not null check (silent_minutes > 0),
  min_devices integer not null check (min_devices > 0),
  -- Some devices of each platform, which belong to the first wave whatever their place.
  first_devices uuid[] not null default '{}',
  -- The wave that is open, from 0.
  wave integer not null default 0 check (wave >= 0 and wave < jsonb_array_length(waves)),
  wave_opened_at timestamptz(3) not null default now(),
  -- Failures before this do not halt the rollout any more: a person has resumed it.
  judged_from timestamptz(3) not null default now(),
  created_by uuid references users (id) on delete set null,
  ended_at timestamptz(3) check ((ended_at is not null) = (state in ('aborted', 'completed'))),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create unique index agent_rollouts_unfinished on agent_rollouts (component) where state in ('running', 'paused', 'halted');
create index agent_rollouts_by_component on agent_rollouts (component, created_at desc, id desc) where state <> 'aborted';
create index agent_rollouts_by_time on agent_rollouts (created_at desc, id desc);
create index agent_rollouts_by_creator on agent_rollouts (created_by) where created_by is not null;
-- Every tenant sees them, because they decide about its devices; only the server writes them.
select protect_table('agent_rollouts', 'true', 'false', 'select');
grant insert, update on agent_rollouts to svc_system;

-- Every server answers from memory which release a device should run. Each change of a rollout is announced to all of
-- them (docs/decisions/access-changes.md has the reasons for this form).
create function announce_rollout_change() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  perform pg_notify('muster_upgrades', json_build_object('kind', 'rollout', 'id', new.id)::text);
  return null;
end;
$$;
create trigger agent_rollouts_started after insert on agent_rollouts
  for each row execute function announce_rollout_change();
create trigger agent_rollouts_changed after update of state, wave on agent_rollouts
  for each row when ((old.state, old.wave) is distinct from (new.state, new.wave))
  execute function announce_rollout_change();

-- Why a rollout was halted, and because of which devices. No tenant sees these: the devices are of all tenants.
create table agent_rollout_halts (
  id uuid primary key,
  rollout_id uuid not null references agent_rollouts (id),
  reason text not null check (reason in ('failed_share', 'failed_in_a_row', 'silent')),
  message varchar(1000) not null,
  -- Those that caused it, at most 100 of them: [{ deviceId, orgId, name }] as they were then.
  devices jsonb not null,
  device_count integer not null,
  halted_at timestamptz(3) not null default now(),
  -- When a person resumed or aborted the rollout.
  ended_at timestamptz(3)
);
create unique index agent_rollout_halts_standing on agent_rollout_halts (rollout_id) where ended_at is null;
create index agent_rollout_halts_by_rollout on agent_rollout_halts (rollout_id, halted_at desc);
select protect_table('agent_rollout_halts', null, null, 'select, insert, update');

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function partner_agent_updates(uuid) owner to svc_system;
revoke create on schema public from svc_system;
