-- Alert rules: on which conditions an alert is raised about which devices, and how bad it is (SHAPES 16,
-- docs/decisions/alerts.md). The two thresholds of each organization become rules.

create table alert_rules (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, for all of its organizations.
  org_id uuid,
  name varchar(100) not null check (name <> ''),
  enabled boolean not null default true,
  severity text not null check (severity in ('critical', 'high', 'medium', 'low', 'info')),
  -- Which devices: { all } or one of { filterId, groupIds, siteIds, deviceIds }.
  target jsonb not null,
  -- src/features/alert-rules/alert-rule.schema.ts describes it.
  condition jsonb not null,
  -- Both follow from the condition, and are what rows are looked up by.
  condition_kind text not null check (condition_kind in ('offline', 'metric', 'event', 'software', 'service', 'reported')),
  alert_kind varchar(64) not null check (alert_kind ~ '^[a-z][a-z0-9_]*$'),
  auto_resolve boolean not null default true,
  cooldown_minutes integer not null default 0 check (cooldown_minutes between 0 and 10080),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create unique index alert_rules_name on alert_rules (coalesce(org_id, partner_id), lower(name));
create index alert_rules_of_owner on alert_rules (partner_id, org_id);
-- What covers an organization: its own rules and those of its partner.
create index alert_rules_by_condition on alert_rules (condition_kind, (coalesce(org_id, partner_id))) where enabled;
create index alert_rules_by_alert_kind on alert_rules (alert_kind, (coalesce(org_id, partner_id)));
create index alert_rules_of_creator on alert_rules (created_by) where created_by is not null;
select protect_table('alert_rules',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- On which devices the condition of a rule is met, or begins to be: all conditions but those on presence, which is in
-- `device_presence`. Kept for devices outside of the target as well, because targets are applied when alerts are raised.
create table alert_rule_matches (
  rule_id uuid not null references alert_rules (id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  -- What of the device: the volume. Empty if the rule is about the device as a whole.
  label varchar(100) not null default '',
  -- Since when, and until when that was seen last, by the times of what the device reported.
  since timestamptz(3) not null,
  through timestamptz(3) not null,
  -- When the server found the condition to be met; null while it has not lasted long enough.
  met_at timestamptz(3),
  -- When it stops being met by itself, or has stopped.
  ends_at timestamptz(3),
  -- What the alert says about it.
  facts jsonb not null default '{}',
  primary key (device_id, rule_id, label),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index alert_rule_matches_of_rule on alert_rule_matches (rule_id);
create index alert_rule_matches_of_device on alert_rule_matches (org_id, device_id);
create index alert_rule_matches_met on alert_rule_matches (met_at) where met_at is not null;
create index alert_rule_matches_ending on alert_rule_matches (ends_at) where ends_at is not null;
-- Devices report within their tenant; the rest is done across tenants.
select protect_table('alert_rule_matches', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update, delete');

-- A device that moves to another organization leaves the rules of the former one.
create function leave_alert_rules() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  delete from alert_rule_matches where org_id = old.org_id and device_id = old.id;
  delete from alert_rule_checks where org_id = old.org_id and device_id = old.id;
  delete from watched_filter_members where org_id = old.org_id and device_id = old.id;
  return new;
end
$$;
create trigger devices_leave_alert_rules before update of org_id on devices
  for each row when (old.org_id is distinct from new.org_id) execute function leave_alert_rules();

-- Events that came and fit a rule whose number of events is not looked up yet. Written by the transaction that stores the
-- events; a round counts them.
create table alert_rule_checks (
  rule_id uuid not null references alert_rules (id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  -- The time of the first of these events.
  earliest timestamptz(3) not null,
  noted_at timestamptz(3) not null default now(),
  primary key (device_id, rule_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index alert_rule_checks_of_rule on alert_rule_checks (rule_id);
create index alert_rule_checks_of_device on alert_rule_checks (org_id, device_id);
select protect_table('alert_rule_checks', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, delete');
grant insert, update on alert_rule_checks to svc_system;

-- Whether an event fits the condition of a rule.
create function event_fits(condition jsonb, level text, category text, source text, event_id text, message text, details jsonb)
returns boolean language sql immutable as $$
  select (condition ->> 'level' is null
      or array_position(array['info', 'warning', 'error', 'critical'], level)
        >= array_position(array['info', 'warning', 'error', 'critical'], condition ->> 'level'))
    and (condition ->> 'category' is null or category = condition ->> 'category')
    and (condition ->> 'source' is null or source = condition ->> 'source')
    and (condition ->> 'eventId' is null or coalesce(details ->> 'eventId', event_id) = condition ->> 'eventId')
    and (condition ->> 'log' is null or details ->> 'log' = condition ->> 'log')
    and (condition ->> 'text' is null or position(lower(condition ->> 'text') in lower(message)) > 0)
$$;

create function note_alert_rule_checks() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into alert_rule_checks (rule_id, org_id, device_id, earliest)
  select r.id, a.org_id, a.device_id, min(a."timestamp")
  from added a join organizations o on o.id = a.org_id
  join alert_rules r on r.condition_kind = 'event' and r.enabled
    and coalesce(r.org_id, r.partner_id) = any(array[o.id, o.partner_id])
  where event_fits(r.condition, a.level, a.category, a.source, a.event_id, a.message, a.details)
  group by r.id, a.org_id, a.device_id order by a.device_id, r.id
  on conflict (device_id, rule_id) do update set earliest = least(alert_rule_checks.earliest, excluded.earliest);
  return null;
end
$$;
revoke execute on function note_alert_rule_checks() from public;
create trigger device_event_logs_alert_rules after insert on device_event_logs
  referencing new table as added for each statement execute function note_alert_rule_checks();

-- Rules about software are met by a change, until the opposite change of the same software.
create function match_software_rules() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into alert_rule_matches as m (rule_id, org_id, device_id, label, since, through, met_at, facts)
  select distinct on (a.device_id, r.id, left(a.name, 100))
    r.id, a.org_id, a.device_id, left(a.name, 100), a.at, a.at, now(),
    jsonb_build_object('name', a.name, 'version', coalesce(nullif(a.version, ''), a.previous_version))
  from added a join organizations o on o.id = a.org_id
  join alert_rules r on r.condition_kind = 'software' and r.enabled
    and coalesce(r.org_id, r.partner_id) = any(array[o.id, o.partner_id])
  where a.change = r.condition ->> 'change'
    and position(lower(r.condition ->> 'name') in lower(a.name)) > 0
  order by a.device_id, r.id, left(a.name, 100), a.id desc
  on conflict (device_id, rule_id, label) do update set since = excluded.since, through = excluded.through,
    met_at = excluded.met_at, ends_at = null, facts = excluded.facts;
  update alert_rule_matches m set ends_at = now()
  from added a, alert_rules r
  where m.org_id = a.org_id and m.device_id = a.device_id and m.label = left(a.name, 100) and r.id = m.rule_id
    and r.condition_kind = 'software' and m.ends_at is null and a.change in ('installed', 'removed')
    and a.change <> r.condition ->> 'change';
  return null;
end
$$;
revoke execute on function match_software_rules() from public;
create trigger software_changes_alert_rules after insert on software_changes
  referencing new table as added for each statement execute function match_software_rules();

-- The filters that rules have as their target, and the devices that matched them when they were evaluated last: no
-- round evaluates a filter for each rule and device.
create table watched_filters (
  filter_id uuid primary key references saved_filters (id) on delete cascade,
  org_id uuid not null references organizations (id),
  evaluated_at timestamptz(3) not null default '-infinity'
);
create index watched_filters_of_organization on watched_filters (org_id);
create index watched_filters_due on watched_filters (evaluated_at);
select protect_table('watched_filters', null);

create table watched_filter_members (
  filter_id uuid not null references watched_filters (filter_id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  primary key (filter_id, device_id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade
);
create index watched_filter_members_of_device on watched_filter_members (org_id, device_id);
-- Servers write the rows. A tenant removes those of a device that moves away.
select protect_table('watched_filter_members', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, delete');
grant insert, update on watched_filter_members to svc_system;

-- Whether a device is in the target of a rule. A device that is null stands for the organization itself.
create function target_covers(target jsonb, organization uuid, site uuid, device uuid) returns boolean
language sql stable as $$
  select case
    when jsonb_exists(target, 'all') then true
    when device is null then false
    when jsonb_exists(target, 'siteIds') then jsonb_exists(target -> 'siteIds', site::text)
    when jsonb_exists(target, 'deviceIds') then jsonb_exists(target -> 'deviceIds', device::text)
    when jsonb_exists(target, 'groupIds') then exists (
      select from device_group_members m where m.org_id = organization and m.device_id = device
        and jsonb_exists(target -> 'groupIds', m.group_id::text))
    else exists (
      select from watched_filter_members m
      where m.filter_id = (target ->> 'filterId')::uuid and m.org_id = organization and m.device_id = device)
  end
$$;

-- What rules say about alerts that Muster reports by itself: the most severe enabled rule that covers the device. Kinds
-- for which neither the organization nor its partner has a rule are `unruled`. Raised within a tenant, where the rules of
-- the partner are not seen.
create function rules_for_reported(wanted jsonb)
returns table (place integer, is_ruled boolean, rule_id uuid, severity text, auto_resolve boolean, cooldown_minutes integer)
language sql stable security definer set search_path = pg_catalog, public as $$
  select w.place::integer, coalesce(bool_or(r.id is not null), false), best.id, best.severity, best.auto_resolve,
    best.cooldown_minutes
  from rows from (jsonb_to_recordset(wanted) as ("orgId" uuid, "deviceId" uuid, kind text)) with ordinality
    as w (org_id, device_id, kind, place)
  join organizations o on o.id = w.org_id
  left join devices d on d.org_id = w.org_id and d.id = w.device_id
  left join alert_rules r on r.condition_kind = 'reported' and r.alert_kind = w.kind
    and coalesce(r.org_id, r.partner_id) = any(array[o.id, o.partner_id])
  left join lateral (
    select b.id, b.severity, b.auto_resolve, b.cooldown_minutes from alert_rules b
    where b.condition_kind = 'reported' and b.alert_kind = w.kind and b.enabled
      and coalesce(b.org_id, b.partner_id) = any(array[o.id, o.partner_id])
      and target_covers(b.target, w.org_id, d.site_id, w.device_id)
    order by array_position(array['critical', 'high', 'medium', 'low', 'info'], b.severity), b.created_at, b.id limit 1
  ) best on true
  group by w.place, best.id, best.severity, best.auto_resolve, best.cooldown_minutes
$$;
revoke execute on function rules_for_reported(jsonb) from public;
grant execute on function rules_for_reported(jsonb) to svc_app, svc_system;

-- The rule that decided about an alert: the most severe one whose condition is met; and whether the end of its cause
-- resolves it.
alter table alerts add column rule_id uuid, add column auto_resolve boolean not null default true;
alter table alerts add constraint alerts_rule_id_fkey foreign key (rule_id) references alert_rules (id)
  on delete set null not valid;

-- The rules with which an organization begins. Null switches a threshold off, as in `alert_settings`, which the release
-- before still reads.
create function add_first_alert_rules(organization uuid, partner uuid, offline_minutes integer, disk_percent integer)
returns void language sql as $$
  insert into alert_rules
    (id, partner_id, org_id, name, enabled, severity, target, condition, condition_kind, alert_kind, auto_resolve)
  select new_row_id(), partner, organization, first.name, first.enabled, first.severity, '{"all": true}',
    first.condition, first.condition ->> 'kind', first.alert_kind, true
  from (values
    ('Device offline', offline_minutes is not null, 'high', 'device_offline',
      jsonb_build_object('kind', 'offline', 'forMinutes', coalesce(offline_minutes, 30))),
    ('Disk almost full', disk_percent is not null, 'high', 'disk_full',
      jsonb_build_object('kind', 'metric', 'metric', 'diskPercent', 'operator', 'greaterThanOrEquals',
        'threshold', coalesce(disk_percent, 90), 'clearThreshold', coalesce(disk_percent, 90) - 5, 'forMinutes', 0)),
    ('Backup failed', true, 'high', 'backup_failed',
      jsonb_build_object('kind', 'reported', 'alertKind', 'backup_failed'))
  ) as first (name, enabled, severity, alert_kind, condition)
$$;

create function organization_begins_with_alert_rules() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  perform add_first_alert_rules(new.id, new.partner_id, 30, 90);
  return new;
end
$$;
revoke execute on function add_first_alert_rules(uuid, uuid, integer, integer) from public;
grant execute on function add_first_alert_rules(uuid, uuid, integer, integer) to svc_system;
revoke execute on function organization_begins_with_alert_rules() from public;
create trigger organizations_begin_with_alert_rules after insert on organizations
  for each row execute function organization_begins_with_alert_rules();

grant create on schema public to svc_system;
alter function rules_for_reported(jsonb) owner to svc_system;
alter function note_alert_rule_checks() owner to svc_system;
alter function match_software_rules() owner to svc_system;
alter function organization_begins_with_alert_rules() owner to svc_system;
revoke create on schema public from svc_system;

select add_first_alert_rules(o.id, o.partner_id,
  case when s.org_id is null then 30 else s.offline_after_minutes end,
  case when s.org_id is null then 90 else s.disk_percent end)
from organizations o left join alert_settings s on s.org_id = o.id
where o.deleted_at is null;
