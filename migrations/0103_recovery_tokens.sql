-- Bare-metal recovery (SPEC 4.13, SHAPES 12; docs/decisions/bare-metal.md).
create table backup_recovery_tokens (
  id uuid primary key,
  org_id uuid not null,
  -- The device that was backed up.
  device_id uuid not null,
  snapshot_id uuid not null,
  restore_type text not null check (restore_type in ('full', 'selective', 'bare_metal')),
  target_config jsonb not null default '{}',
  token_hash varchar(64) not null unique,
  -- Of the secret that the one who authenticated was given: only that one can go on.
  session_hash varchar(64),
  status text not null default 'active' check (status in ('active', 'authenticated', 'used', 'revoked')),
  -- Until when the token can be authenticated.
  expires_at timestamptz(3) not null,
  -- Until when the session can go on.
  session_expires_at timestamptz(3),
  authentications integer not null default 0,
  credential_id uuid,
  -- What the rescue system says of itself.
  machine jsonb,
  progress jsonb,
  result jsonb,
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  authenticated_at timestamptz(3),
  -- When it was used up or revoked.
  finished_at timestamptz(3),
  unique (org_id, id),
  constraint backup_recovery_tokens_end check ((finished_at is not null) = (status in ('used', 'revoked'))),
  -- With its snapshot it goes, and moves to another organization.
  foreign key (org_id, snapshot_id) references backup_snapshots (org_id, id) on delete cascade on update cascade
) with (fillfactor = 70);
create index backup_recovery_tokens_of_org on backup_recovery_tokens (org_id, created_at desc, id desc);
create index backup_recovery_tokens_of_device on backup_recovery_tokens (device_id, created_at desc, id desc);
create index backup_recovery_tokens_of_snapshot on backup_recovery_tokens (snapshot_id);
create index backup_recovery_tokens_by_age on backup_recovery_tokens (org_id, created_at);
select protect_table('backup_recovery_tokens', 'org_id = any((select app_org_ids())::uuid[])', null, 'select, insert, update');
grant delete on backup_recovery_tokens to svc_system;

create trigger backup_recovery_tokens_work after update on backup_recovery_tokens
  referencing old table as former new table as changed
  for each statement execute function announce_long_work('recovery');
