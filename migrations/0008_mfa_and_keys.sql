-- The second factor of people, and keys for programs that act for them (SHAPES 4).

-- A person without enabled_at has begun to set the second factor up, and signs in without it still.
create table user_mfa (
  user_id uuid primary key references users (id) on delete cascade,
  secret text not null,
  recovery_salt char(32) not null,
  enabled_at timestamptz(3),
  -- The newest time step whose code was taken: each code opens once.
  last_step bigint not null default 0,
  tries integer not null default 0,
  tries_since timestamptz(3) not null default now(),
  created_at timestamptz(3) not null default now()
);

create table mfa_recovery_codes (
  user_id uuid not null references user_mfa (user_id) on delete cascade,
  code_hash char(64) not null,
  used_at timestamptz(3),
  primary key (user_id, code_hash)
);

-- A sign-in whose password was right and whose second factor is still to come.
create table mfa_challenges (
  token_hash char(64) primary key,
  user_id uuid not null references users (id) on delete cascade,
  tries integer not null default 0,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  used_at timestamptz(3)
);
create index mfa_challenges_by_user on mfa_challenges (user_id);

create table api_keys (
  id uuid primary key,
  -- Null: wherever its maker may go.
  org_id uuid references organizations (id),
  created_by uuid not null references users (id) on delete cascade,
  name varchar(255) not null,
  key_hash char(64) not null unique,
  key_prefix varchar(16) not null,
  scopes text[] not null,
  rate_limit integer not null check (rate_limit > 0),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  usage_count bigint not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create index api_keys_by_org on api_keys (org_id, created_at desc, id);
create index api_keys_by_creator on api_keys (created_by, created_at desc, id);

select protect_table('user_mfa', 'user_id = (select app_user_id())');
select protect_table('mfa_recovery_codes', 'user_id = (select app_user_id())');
-- Found by the holder's secret alone, before anyone is signed in.
select protect_table('mfa_challenges', null);
-- A person who changes the password ends what was begun with the old one.
create policy tenant on mfa_challenges to svc_app using (user_id = (select app_user_id()));
grant select, delete on mfa_challenges to svc_app;
-- A key without an organization belongs to where its maker does, which the policy of users says.
select protect_table('api_keys',
  'org_id = any((select app_org_ids())::uuid[]) or (org_id is null and created_by in (select id from users))');
