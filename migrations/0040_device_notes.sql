-- What people have noted about devices (src/features/device-timeline).
create table device_notes (
  id uuid primary key,
  org_id uuid not null,
  device_id uuid not null,
  text varchar(4000) not null check (text <> ''),
  is_pinned boolean not null default false,
  created_by uuid references users (id) on delete set null,
  -- The name at that time, for when the account is deleted.
  author_name varchar(255) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- When its text was changed last.
  edited_at timestamptz(3),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index device_notes_of_device on device_notes (org_id, device_id, created_at desc, id desc);
create index device_notes_of_author on device_notes (created_by) where created_by is not null;
select protect_table('device_notes', 'org_id = any((select app_org_ids())::uuid[])');

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
