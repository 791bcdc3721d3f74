-- Staged rollouts: a release reaches the devices with the update policy `staged` in waves (SHAPES 10).

-- A device's place among 10,000 in a rollout, which is the same for ever. The code computes it as well (`placeOf`).
create function rollout_place(rollout uuid, device uuid) returns integer
language sql immutable strict parallel safe as $$
  select (('x' || encode(substring(sha256(uuid_send(rollout) || uuid_send(device)) from 1 for 4), 'hex'))::bit(32)::bigint
    % 10000)::integer
$$;

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
  -- Failures before this do not halt the rollout any more: somebody has resumed it.
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
  -- When somebody resumed or aborted the rollout.
  ended_at timestamptz(3)
);
create unique index agent_rollout_halts_standing on agent_rollout_halts (rollout_id) where ended_at is null;
create index agent_rollout_halts_by_rollout on agent_rollout_halts (rollout_id, halted_at desc);
select protect_table('agent_rollout_halts', null, null, 'select, insert, update');

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
