-- The services of devices, as their agents report them, and the alert rules about them (docs/decisions/alerts.md).

-- What a device reported last: that it has no service manager, or more services than are kept.
create table device_service_reports (
  org_id uuid not null,
  device_id uuid not null,
  manager text not null check (manager in ('systemd', 'windows', 'launchd', 'none')),
  -- Null if all services are kept.
  total integer,
  reported_at timestamptz(3) not null,
  primary key (org_id, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
select protect_table('device_service_reports', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert, update on device_service_reports to svc_system;

create table device_services (
  org_id uuid not null,
  device_id uuid not null,
  name varchar(200) not null,
  -- Empty if it has none.
  display_name varchar(200) not null default '',
  state text not null check (state in ('running', 'stopped', 'failed', 'starting', 'stopping', 'paused')),
  -- Null if it is not known.
  start_mode text check (start_mode in ('automatic', 'manual', 'disabled')),
  -- Since when it is in that state, as far as the agent or the server knows.
  since timestamptz(3) not null,
  primary key (org_id, device_id, name),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
-- A round looks up the services that rules name. A change of state changes no indexed column.
create index device_services_by_name on device_services (org_id, lower(name));
create index device_services_by_display_name on device_services (org_id, lower(display_name))
  where display_name <> '';
select protect_table('device_services', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert, update, delete on device_services to svc_system;

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;

-- The name that a rule is about. Of systemd, services are kept without the ending of their units.
create function service_rule_name(condition jsonb) returns text language sql immutable as $$
  select regexp_replace(lower(condition ->> 'name'), '\.service$', '')
$$;

-- Whether the state of a service is the one that a rule waits for. One that has failed is stopped as well.
create function service_state_fits(condition jsonb, state text) returns boolean language sql immutable as $$
  select state = condition ->> 'state' or (state = 'failed' and condition ->> 'state' = 'stopped')
$$;

create function service_fits(condition jsonb, name text, display_name text, state text) returns boolean
language sql immutable as $$
  select service_state_fits(condition, state)
    and (lower(name) = service_rule_name(condition) or lower(display_name) = lower(condition ->> 'name'))
$$;

-- What an alert says about a service.
create function service_facts(name text, display_name text, state text) returns jsonb language sql immutable as $$
  select jsonb_build_object('name', coalesce(nullif(display_name, ''), name), 'state', state)
$$;

-- Rules about services are met by a state, until it ends. If the state has to last, a round finds that it did: until then,
-- `met_at` is null. A device that moves to another organization meets the rules there in the same way.
create function match_service_rules() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  if not exists (select from alert_rules where condition_kind = 'service' and enabled) then
    return null;
  end if;
  insert into alert_rule_matches as m (rule_id, org_id, device_id, label, since, through, met_at, facts)
  select distinct on (c.device_id, r.id, left(c.name, 100))
    r.id, c.org_id, c.device_id, left(c.name, 100), c.since, c.since,
    case when coalesce((r.condition ->> 'forMinutes')::integer, 0) = 0 then now() end,
    service_facts(c.name, c.display_name, c.state)
  from changed c join organizations o on o.id = c.org_id
  join alert_rules r on r.condition_kind = 'service' and r.enabled
    and coalesce(r.org_id, r.partner_id) = any(array[o.id, o.partner_id])
  where service_fits(r.condition, c.name, c.display_name, c.state)
  order by c.device_id, r.id, left(c.name, 100), c.name
  -- A service that was stopped and then counts as failed was not there in between. A state that began anew lasts anew.
  on conflict (device_id, rule_id, label) do update set
    since = case when m.ends_at is null and m.facts ->> 'state' <> excluded.facts ->> 'state' then m.since
      else excluded.since end,
    through = excluded.through,
    met_at = case when m.ends_at is null then coalesce(m.met_at, excluded.met_at) else excluded.met_at end,
    ends_at = null, facts = excluded.facts;
  update alert_rule_matches m set ends_at = now(), facts = service_facts(c.name, c.display_name, c.state)
  from changed c, alert_rules r
  where m.org_id = c.org_id and m.device_id = c.device_id and m.label = left(c.name, 100) and m.ends_at is null
    and r.id = m.rule_id and r.condition_kind = 'service'
    and not service_fits(r.condition, c.name, c.display_name, c.state);
  return null;
end
$$;
revoke execute on function match_service_rules() from public;

create function end_service_matches() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  update alert_rule_matches m set ends_at = now(), facts = service_facts(g.name, g.display_name, 'removed')
  from gone g, alert_rules r
  where m.org_id = g.org_id and m.device_id = g.device_id and m.label = left(g.name, 100) and m.ends_at is null
    and r.id = m.rule_id and r.condition_kind = 'service';
  return null;
end
$$;
revoke execute on function end_service_matches() from public;

grant create on schema public to svc_system;
alter function match_service_rules() owner to svc_system;
alter function end_service_matches() owner to svc_system;
revoke create on schema public from svc_system;

create trigger device_services_added after insert on device_services
  referencing new table as changed for each statement execute function match_service_rules();
create trigger device_services_changed after update on device_services
  referencing new table as changed for each statement execute function match_service_rules();
create trigger device_services_removed after delete on device_services
  referencing old table as gone for each statement execute function end_service_matches();
