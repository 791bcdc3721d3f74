-- Passkeys: a way to sign in, and a second factor (docs/decisions/passkeys.md).
create table passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  name varchar(100) not null check (name <> ''),
  -- Chosen by the authenticator, in base64url. One authenticator key belongs to one person only.
  credential_id varchar(1364) not null unique,
  -- In the form of COSE (RFC 9052).
  public_key bytea not null check (octet_length(public_key) <= 1024),
  -- The last count of signatures that the authenticator has told; those that copy their keys between devices tell 0.
  sign_count bigint not null default 0,
  -- How a browser reaches the authenticator, such as `internal` or `usb`.
  transports text[] not null default '{}',
  -- The keys are copied to other devices of the person.
  synced boolean not null default false,
  -- The count of signatures has gone back: a copy of the authenticator may be in use. The passkey opens nothing any more.
  suspect_at timestamptz(3),
  last_used_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create index passkeys_by_user on passkeys (user_id);
select protect_table('passkeys', 'user_id = (select app_user_id())');

-- A question to an authenticator that has not been answered yet. Its row is deleted by the first answer.
create table passkey_challenges (
  challenge_hash char(64) primary key,
  ceremony text not null check (ceremony in ('registration', 'sign_in', 'second_factor', 'step_up')),
  -- Null for a sign-in: the passkey says who it is.
  user_id uuid references users (id) on delete cascade,
  -- The session that is asked. Null where nobody is signed in yet.
  session_id uuid,
  -- The sign-in that waits for its second factor.
  mfa_challenge_hash char(64),
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  check (case ceremony
    when 'sign_in' then num_nonnulls(user_id, session_id, mfa_challenge_hash) = 0
    when 'second_factor' then user_id is not null and session_id is null and mfa_challenge_hash is not null
    else user_id is not null and session_id is not null and mfa_challenge_hash is null
  end)
);
create index passkey_challenges_by_user on passkey_challenges (user_id) where user_id is not null;
create index passkey_challenges_by_end on passkey_challenges (expires_at);
-- Found by the answer of an authenticator, mostly before anyone is signed in.
select protect_table('passkey_challenges', null);
