-- Releases of the agent and its companions (SPEC 4.12, 9.5 to 9.10, SHAPES 10).

-- The private key is sealed with SECRET_ENCRYPTION_KEY: a database alone can neither sign nor make a key that counts.
create table release_signing_keys (
  id uuid primary key,
  public_key text not null,
  sealed_private_key text not null,
  created_at timestamptz(3) not null default now(),
  retired_at timestamptz(3)
);
create unique index release_signing_keys_current on release_signing_keys ((true)) where retired_at is null;
select protect_table('release_signing_keys', null, null, 'select, insert, update');

-- One version of one component for one platform.
create table agent_releases (
  id uuid primary key,
  version varchar(20) not null check (version ~ '^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.(0|[1-9]\d*))?$'),
  component text not null check (component in ('agent', 'watchdog', 'helper', 'backup')),
  os text not null check (os in ('linux', 'windows', 'macos')),
  architecture text not null check (architecture in ('x64', 'arm64')),
  source text not null check (source in ('github', 'local')),
  size integer not null check (size > 0),
  sha256 char(64) not null check (sha256 ~ '^[0-9a-f]{64}$'),
  -- Ed25519 over the canonical manifest of the columns above without `source`; base64url.
  signature varchar(100) not null,
  key_id uuid not null references release_signing_keys (id),
  notes varchar(2000),
  is_prerelease boolean not null,
  promoted boolean not null default false,
  -- Where `github` serves the file. A `local` one is in DATA_DIR/releases under its SHA-256.
  download_url varchar(1000),
  created_at timestamptz(3) not null default now(),
  unique (version, component, os, architecture),
  constraint agent_releases_place check ((source = 'github') = (download_url is not null))
);
create unique index agent_releases_promoted on agent_releases (component, os, architecture) where promoted;
create index agent_releases_by_time on agent_releases (created_at, id);
create index agent_releases_by_file on agent_releases (sha256) where source = 'local';
create index agent_releases_by_key on agent_releases (key_id);
-- Every tenant sees them, as everyone does who downloads them; only the server writes them.
select protect_table('agent_releases', 'true', 'false', 'select');
grant insert, update, delete on agent_releases to svc_system;
