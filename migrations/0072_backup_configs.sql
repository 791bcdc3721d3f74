-- What is backed up, where to, when and for how long (SPEC 4.13, SHAPES 11), and the keys of the repositories.

create table backup_encryption_keys (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  -- `rotating`: not every repository of the key has its newest version yet.
  status text not null default 'active' check (status in ('active', 'rotating')),
  version integer not null default 1 check (version > 0),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  rotated_at timestamptz(3),
  unique (org_id, id)
);
create unique index backup_encryption_keys_name on backup_encryption_keys (org_id, lower(name));
select protect_table('backup_encryption_keys', 'org_id = any((select app_org_ids())::uuid[])');

-- Earlier versions stay: a repository as of an earlier time, and a vault, open with the key of that time.
create table backup_encryption_key_versions (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  key_id uuid not null,
  version integer not null check (version > 0),
  sealed_material text not null,
  -- SHA-256 of the material, hexadecimal.
  fingerprint char(64) not null,
  created_at timestamptz(3) not null default now(),
  unique (key_id, version),
  foreign key (org_id, key_id) references backup_encryption_keys (org_id, id) on delete cascade
);
create index backup_encryption_key_versions_by_org on backup_encryption_key_versions (org_id);
select protect_table('backup_encryption_key_versions', 'org_id = any((select app_org_ids())::uuid[])');

create table backup_configs (
  id uuid primary key,
  org_id uuid not null references organizations (id),
  name varchar(200) not null check (name <> ''),
  provider text not null check (provider in ('server', 's3', 'local')),
  -- Without secrets; `sealed_secret` holds the one that the provider has.
  details jsonb not null,
  sealed_secret text,
  encryption_key_id uuid not null,
  enabled boolean not null default true,
  is_default boolean not null default false,
  sources jsonb not null,
  schedule jsonb,
  retention jsonb not null,
  targets jsonb not null,
  limits jsonb not null,
  -- When a configuration became what it is now: slots before that are not made up for.
  scheduled_since timestamptz(3) not null default now(),
  created_by uuid references users (id) on delete set null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (org_id, id),
  foreign key (org_id, encryption_key_id) references backup_encryption_keys (org_id, id)
);
create unique index backup_configs_name on backup_configs (org_id, lower(name));
create unique index backup_configs_default on backup_configs (org_id) where is_default;
create index backup_configs_by_key on backup_configs (encryption_key_id);
-- What the scheduler reads.
create index backup_configs_scheduled on backup_configs (id) where enabled and schedule is not null;
select protect_table('backup_configs', 'org_id = any((select app_org_ids())::uuid[])');
