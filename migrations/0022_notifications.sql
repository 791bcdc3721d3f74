-- Notifications: who is told about alerts, how, when, and what came of it (docs/decisions/notifications.md).

-- Ways to reach people: an address, a room of a chat, a service that pages.
create table notification_channels (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: it belongs to the partner itself.
  org_id uuid,
  name varchar(200) not null,
  type text not null check (type in ('email', 'slack', 'teams', 'discord', 'pagerduty', 'ntfy', 'webhook')),
  details jsonb not null default '{}',
  sealed_secret text,
  -- Since when nothing has arrived.
  failing_since timestamptz(3),
  last_error varchar(300),
  last_success_at timestamptz(3),
  -- The receiver has asked to be left alone until then.
  paused_until timestamptz(3),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create unique index notification_channels_name on notification_channels (coalesce(org_id, partner_id), lower(name));
create index notification_channels_of_owner on notification_channels (partner_id, org_id);
create index notification_channels_of_creator on notification_channels (created_by) where created_by is not null;
select protect_table('notification_channels',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- The first enabled policy that fits takes an alert: those of the organization in order, then those of its partner.
create table notification_policies (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  org_id uuid,
  position integer not null,
  name varchar(200) not null,
  enabled boolean not null default true,
  match jsonb not null default '{}',
  steps jsonb not null,
  repeat_every_minutes integer check (repeat_every_minutes > 0),
  group_by text not null default 'none' check (group_by in ('none', 'device', 'site', 'rule')),
  group_seconds integer not null default 0 check (group_seconds >= 0),
  until text not null default 'acknowledged' check (until in ('acknowledged', 'resolved')),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create unique index notification_policies_name on notification_policies (coalesce(org_id, partner_id), lower(name));
create index notification_policies_of_owner on notification_policies (partner_id, org_id, position);
create index notification_policies_of_creator on notification_policies (created_by) where created_by is not null;
select protect_table('notification_policies',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- What has changed about alerts and is not looked at yet, written in the transaction of the change. No tenant sees it.
create table notification_outbox (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  alert_id uuid not null references alerts (id) on delete cascade,
  -- `raised`: it is new, active again, or worse than before.
  change text not null check (change in ('raised', 'acknowledged', 'resolved')),
  created_at timestamptz(3) not null default now()
);
create index notification_outbox_waiting on notification_outbox (org_id, id);
create index notification_outbox_of_alert on notification_outbox (alert_id);
select protect_table('notification_outbox', null);

-- One conversation with those whom a policy names: about one alert, or about all of a device, site or kind.
create table notification_groups (
  id uuid primary key,
  partner_id uuid not null,
  org_id uuid not null,
  -- Without a key, because conversations outlive it: once it is deleted, nobody is told anything but the end.
  policy_id uuid not null,
  key varchar(120) not null,
  -- The subject of its mails, which stays the same so that they form a thread.
  title varchar(300) not null,
  state text not null default 'open' check (state in ('open', 'acknowledged', 'closed')),
  -- From when the minutes of the steps count.
  began_at timestamptz(3) not null,
  -- The number of steps that were taken, and how often everybody was told again.
  steps_taken smallint not null default 0,
  repeats smallint not null default 0,
  last_told_at timestamptz(3),
  -- When it is looked at next. Null once it is closed.
  due_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  closed_at timestamptz(3),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id),
  check ((state = 'closed') = (closed_at is not null)),
  check ((state = 'closed') = (due_at is null))
);
create unique index notification_groups_open on notification_groups (policy_id, org_id, key) where state <> 'closed';
create index notification_groups_due on notification_groups (due_at) where due_at is not null;
create index notification_groups_ended on notification_groups (org_id, closed_at) where closed_at is not null;
select protect_table('notification_groups', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, update');
grant insert, delete on notification_groups to svc_system;

-- The alerts of a conversation.
create table notification_group_alerts (
  group_id uuid not null,
  org_id uuid not null,
  alert_id uuid not null references alerts (id) on delete cascade,
  status text not null check (status in ('active', 'acknowledged', 'resolved')),
  joined_at timestamptz(3) not null default now(),
  -- Null: nobody has been told about it, or about what has changed since.
  told_at timestamptz(3),
  primary key (group_id, alert_id),
  foreign key (org_id, group_id) references notification_groups (org_id, id) on delete cascade
);
create index notification_group_alerts_of_alert on notification_group_alerts (alert_id);
create index notification_group_alerts_of_group on notification_group_alerts (org_id, group_id);
select protect_table('notification_group_alerts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert, update on notification_group_alerts to svc_system;

-- One message to one recipient. The work that sends it has the same id.
create table notifications (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Of its alerts, or of the channel that is tested.
  org_id uuid not null,
  group_id uuid,
  -- Without keys, because the log outlives what it names.
  policy_id uuid,
  step smallint,
  reason text not null check (reason in ('raised', 'escalated', 'repeated', 'acknowledged', 'resolved', 'test')),
  status text not null default 'pending' check (status in ('pending', 'sent', 'failed', 'suppressed')),
  channel_id uuid,
  user_id uuid references users (id) on delete set null,
  recipient varchar(255) not null,
  title varchar(300) not null,
  severity text not null check (severity in ('critical', 'high', 'medium', 'low', 'info')),
  alert_count integer not null,
  alert_id uuid,
  -- What the message says, so that each attempt says the same.
  content jsonb not null default '{}',
  attempts smallint not null default 0,
  -- An attempt has begun, and its outcome is not recorded: the message may have arrived.
  is_in_doubt boolean not null default false,
  error varchar(300),
  created_at timestamptz(3) not null default now(),
  sent_at timestamptz(3),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id),
  foreign key (org_id, group_id) references notification_groups (org_id, id) on delete set null (group_id),
  check ((sent_at is not null) = (status = 'sent'))
);
create index notifications_newest on notifications (org_id, created_at desc, id desc);
create index notifications_of_partner on notifications (partner_id, created_at desc, id desc);
create index notifications_of_group on notifications (group_id) where group_id is not null;
create index notifications_of_channel on notifications (channel_id, created_at desc) where channel_id is not null;
create index notifications_of_user on notifications (user_id, created_at desc) where user_id is not null;
create index notifications_by_age on notifications (created_at);
select protect_table('notifications', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert');
grant update, delete on notifications to svc_system;

-- What a person wants to be told, wherever a policy names them.
create table notification_settings (
  user_id uuid primary key references users (id) on delete cascade,
  address varchar(255),
  phone varchar(50),
  quiet_hours jsonb,
  critical_breaks_quiet_hours boolean not null default true,
  severities text[],
  updated_at timestamptz(3) not null default now()
);
select protect_table('notification_settings', 'user_id = (select app_user_id())', null, 'select, insert, update');

-- The people among some who belong to a partner and reach one of its organizations (null: any of them), with what they
-- want to be told. A policy of an organization may name people of the partner, whom the organization does not see.
create function notification_people(wanted uuid[], partner uuid, organization uuid)
returns table (
  id uuid, name varchar, email varchar, status text, permissions text[], address varchar, quiet_hours jsonb,
  critical_breaks_quiet_hours boolean, severities text[])
language sql stable security definer set search_path = pg_catalog, public as $$
  select u.id, u.name, u.email, u.status, r.permissions, s.address, s.quiet_hours,
    coalesce(s.critical_breaks_quiet_hours, true), s.severities
  from (
    select m.user_id, m.role_id from partner_users m
    where m.partner_id = partner and m.user_id = any(wanted)
      and (m.org_access = 'all' or m.org_access = 'selected' and (organization is null or organization = any(m.org_ids)))
    union all
    select m.user_id, m.role_id from organization_users m
    where m.org_id = organization and m.user_id = any(wanted)
  ) as member
  join users u on u.id = member.user_id join roles r on r.id = member.role_id
  left join notification_settings s on s.user_id = u.id
$$;
revoke execute on function notification_people(uuid[], uuid, uuid) from public;
grant execute on function notification_people(uuid[], uuid, uuid) to svc_app, svc_system;

-- The channels that policies name. A policy of an organization may use channels of the partner, of which the organization
-- sees no more than this.
create function notification_channel_names(policies uuid[])
returns table (policy_id uuid, id uuid, name varchar, type text)
language sql stable security definer set search_path = pg_catalog, public as $$
  select distinct p.id, c.id, c.name, c.type from notification_policies p
  cross join lateral jsonb_array_elements(p.steps) as step
  cross join lateral jsonb_array_elements_text(coalesce(step -> 'channelIds', '[]')) as named
  join notification_channels c on c.partner_id = p.partner_id and c.id = named::uuid
  where p.id = any(policies)
$$;
revoke execute on function notification_channel_names(uuid[]) from public;
grant execute on function notification_channel_names(uuid[]) to svc_app, svc_system;

-- A technician of an organization causes alerts and does not see the policies of the partner, so both functions work
-- across tenants. One statement for all alerts of a storm.
create function notification_alerts_raised() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into notification_outbox (id, org_id, alert_id, change)
  select new_row_id(), a.org_id, a.id, 'raised' from added a
  join organizations o on o.id = a.org_id and o.deleted_at is null
  where a.status = 'active' and exists (
    select from notification_policies p where p.partner_id = o.partner_id and (p.org_id is null or p.org_id = o.id)
      and p.enabled);
  return null;
end
$$;
revoke execute on function notification_alerts_raised() from public;

create function notification_alerts_changed() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into notification_outbox (id, org_id, alert_id, change)
  select new_row_id(), c.org_id, c.id, case c.status when 'active' then 'raised' else c.status end
  from changed c join former f on f.id = c.id
  join organizations o on o.id = c.org_id and o.deleted_at is null
  where (c.status <> f.status or c.status = 'active'
      and array_position(array['critical', 'high', 'medium', 'low', 'info'], c.severity)
        < array_position(array['critical', 'high', 'medium', 'low', 'info'], f.severity))
    and (exists (
        select from notification_policies p where p.partner_id = o.partner_id and (p.org_id is null or p.org_id = o.id)
          and p.enabled)
      or exists (select from notification_outbox w where w.alert_id = c.id)
      or exists (
        select from notification_group_alerts ga join notification_groups g on g.id = ga.group_id
        where ga.alert_id = c.id and g.state <> 'closed'));
  return null;
end
$$;
revoke execute on function notification_alerts_changed() from public;

create trigger alerts_notifications_raised after insert on alerts
  referencing new table as added for each statement execute function notification_alerts_raised();
create trigger alerts_notifications_changed after update on alerts
  referencing old table as former new table as changed for each statement execute function notification_alerts_changed();

-- What works across tenants belongs to svc_system, which may create nothing here otherwise.
grant create on schema public to svc_system;
alter function notification_people(uuid[], uuid, uuid) owner to svc_system;
alter function notification_channel_names(uuid[]) owner to svc_system;
alter function notification_alerts_raised() owner to svc_system;
alter function notification_alerts_changed() owner to svc_system;
revoke create on schema public from svc_system;
