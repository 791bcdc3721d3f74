-- Terminals of devices, and what they showed (docs/decisions/terminal.md).

-- When the second factor of the session was given last. Null if that was at its beginning, or never.
alter table sessions add column mfa_at timestamptz(3);

-- Whether an organization allows terminals. Without a row it does not.
create table terminal_settings (
  org_id uuid primary key references organizations (id) on delete cascade,
  enabled boolean not null default false,
  updated_at timestamptz(3) not null default now()
);
select protect_table('terminal_settings', 'org_id = any((select app_org_ids())::uuid[])');

-- The servers look again at who may have terminals.
create function announce_terminal_setting() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  perform pg_notify('muster_access', json_build_object('kind', 'organization', 'id', new.org_id,
    'partnerId', (select partner_id from organizations where id = new.org_id))::text);
  return null;
end;
$$;
create trigger terminal_settings_access after insert or update of enabled on terminal_settings
  for each row execute function announce_terminal_setting();

create table terminals (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  -- The organization of the device when it was opened: a terminal does not move with its device, its recording does.
  opened_in uuid not null,
  user_id uuid references users (id) on delete set null,
  user_name varchar(255) not null,
  user_email varchar(255) not null,
  resume_token_hash text not null,
  cols integer not null,
  rows integer not null,
  -- The key of the recording, sealed.
  sealed_key text not null,
  opened_at timestamptz(3) not null default now(),
  -- When a server last knew that it had a viewer.
  seen_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  end_reason text,
  exit_code integer,
  -- Up to which character of its output it is recorded, and what that takes.
  recorded_to bigint not null default 0,
  part_count integer not null default 0,
  stored_bytes bigint not null default 0,
  unique (org_id, id),
  check ((ended_at is null) = (end_reason is null)),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index terminals_of_device on terminals (org_id, device_id, opened_at desc, id);
create index terminals_by_age on terminals (org_id, opened_at);
create index terminals_of_user on terminals (user_id) where user_id is not null;
create index terminals_open on terminals (seen_at) where ended_at is null;
select protect_table('terminals', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on terminals to svc_system;

create table terminal_parts (
  terminal_id uuid not null,
  org_id uuid not null,
  seq integer not null,
  -- Compressed, and encrypted with the key of the recording.
  content bytea not null,
  primary key (terminal_id, seq),
  foreign key (org_id, terminal_id) references terminals (org_id, id) on delete cascade on update cascade
);
create index terminal_parts_of_terminal on terminal_parts (org_id, terminal_id);
select protect_table('terminal_parts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert on terminal_parts to svc_system;

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;

-- Technicians may open terminals where the organization allows them. Administrators hold everything.
set local role svc_system;
update roles set permissions = array_append(permissions, 'devices:terminal')
where is_system and id in ('01900000-0000-7000-8000-000000000003', '01900000-0000-7000-8000-000000000006')
  and not permissions @> '{devices:terminal}';
reset role;
