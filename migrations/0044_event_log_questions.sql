-- Standing questions: a query of event logs that devices are asked as they come back (docs/decisions/event-log-questions.md).
-- An addition to SPEC.
create table event_log_questions (
  id uuid primary key,
  partner_id uuid not null references partners (id),
  -- Null: of the partner, for devices of all of its organizations.
  org_id uuid,
  name varchar(100) check (name <> ''),
  -- Which devices were meant, as maintenance windows have it. They were found out when the question was made.
  target jsonb not null,
  -- The log and the conditions on its entries.
  query jsonb not null,
  at_most_rows integer not null check (at_most_rows between 1 and 500),
  days smallint not null check (days between 1 and 30),
  device_count integer not null default 0,
  -- What the stored answers take, in bytes.
  stored_bytes bigint not null default 0,
  ends_at timestamptz(3) not null,
  cancelled_at timestamptz(3),
  -- Whose rights decide whether a device is asked. Null if the account was deleted.
  created_by uuid references users (id) on delete set null,
  author_name varchar(255) not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (partner_id, id),
  unique (org_id, id),
  foreign key (partner_id, org_id) references organizations (partner_id, id)
);
create index event_log_questions_of_owner on event_log_questions (partner_id, org_id, created_at desc, id desc);
create index event_log_questions_of_author on event_log_questions (created_by) where created_by is not null;
create index event_log_questions_by_end on event_log_questions (ends_at);
select protect_table('event_log_questions',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_wide()))');

-- What became of a question at one device. The id is that of the work that asks the device.
create table event_log_answers (
  id uuid primary key,
  question_id uuid not null references event_log_questions (id) on delete cascade,
  org_id uuid not null,
  device_id uuid not null,
  outcome text not null default 'waiting'
    check (outcome in ('waiting', 'asked', 'answered', 'failed', 'never_came', 'cancelled')),
  -- Of `failed`: for programs and for people.
  code varchar(64),
  message varchar(2000),
  -- How often the device was asked, and when last.
  asks smallint not null default 0,
  asked_at timestamptz(3),
  ended_at timestamptz(3),
  -- Of `answered`: the entries, and what the device said about its reading.
  entries jsonb,
  entry_count integer not null default 0,
  -- Entries that the server did not keep, because they were too large.
  left_out integer not null default 0,
  summary jsonb,
  unique (question_id, device_id),
  unique (org_id, id),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
create index event_log_answers_by_outcome on event_log_answers (question_id, outcome, device_id);
create index event_log_answers_of_device on event_log_answers (org_id, device_id);
select protect_table('event_log_answers', 'org_id = any((select app_org_ids())::uuid[])', null,
  'select, insert, update');

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
