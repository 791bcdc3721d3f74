-- Who may do what in this database, and the one helper that protects a table.
--
--   owner            runs migrations; owns everything
--   svc_app          serves requests; owns nothing, never sees a row outside the tenant set for the transaction
--   svc_system       works across tenants; cannot log in, reached by SET LOCAL ROLE
--   svc_audit_admin  prunes the audit trail, and nothing else; the operator lets it sign in
--
-- Roles belong to the whole cluster: another Muster database on it may have created them already, or creates them at
-- the same moment.

do $$
declare
  wanted text;
begin
  foreach wanted in array array['svc_app', 'svc_system', 'svc_audit_admin'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        -- NOINHERIT: a member of svc_system has none of its rights until it says SET ROLE. Postgres 15 knows no
        -- WITH INHERIT FALSE on the grant, so the role itself carries it.
        execute format('create role %I nologin noinherit nosuperuser nobypassrls nocreatedb nocreaterole', wanted);
      exception when duplicate_object or unique_violation then null;
      end;
    end if;
  end loop;
end
$$;

do $$
begin
  if current_setting('server_version_num')::int >= 160000 then
    execute 'grant svc_system to svc_app with inherit false, set true';
    -- Migrations hand functions to svc_system, for which the owner of the database must be able to become it.
    if not (select rolsuper from pg_roles where rolname = current_user) then
      execute format('grant svc_system to %I with set true', current_user);
    end if;
  else
    execute 'grant svc_system to svc_app';
    if not (select rolsuper from pg_roles where rolname = current_user) then
      execute format('grant svc_system to %I', current_user);
    end if;
  end if;
end
$$;

revoke all on schema public from public;
grant usage on schema public to svc_app, svc_system, svc_audit_admin;

-- Lists of names are sorted by the rules of ICU: docs/decisions/text-from-others.md.
do $$
begin
  if not exists (select from pg_collation where collname = 'und-x-icu') then
    raise exception 'this Postgres was built without ICU, by whose rules Muster sorts names'
      using hint = 'Use a build with ICU, as the packages of all distributions and the official images are.';
  end if;
end
$$;

-- The tenant of a transaction. After a transaction that set them, the variables read '' and not null, in the same
-- session; an unset or malformed one means: no rows.

create function app_user_id() returns uuid language sql stable parallel safe as $$
  select nullif(current_setting('app.user_id', true), '')::uuid
$$;

create function app_partner_id() returns uuid language sql stable parallel safe as $$
  select nullif(current_setting('app.partner_id', true), '')::uuid
$$;

-- The partner of a caller who may see all of its organizations; null for everyone else.
create function app_partner_wide() returns uuid language sql stable parallel safe as $$
  select case when current_setting('app.org_access', true) = 'all' then app_partner_id() end
$$;

-- The organizations named for this transaction.
create function app_listed_org_ids() returns uuid[] language sql stable parallel safe as $$
  select case
    when current_setting('app.org_ids', true) ~ '^\{[0-9a-f,-]*\}$' then current_setting('app.org_ids', true)::uuid[]
    else '{}'::uuid[]
  end
$$;

-- Protects a table. visible: the condition for rows that a tenant sees (null: none); writable: for rows that it may
-- write (default: the same). Write conditions with scalar sub-selects, such as org_id = any((select
-- app_org_ids())::uuid[]): they are evaluated once a query, and can use an index. A function of the row costs a hundred
-- times as much.
create function protect_table(
  protected regclass, visible text, writable text default null, privileges text default 'select, insert, update, delete'
) returns void language plpgsql as $$
begin
  execute format('alter table %s enable row level security', protected);
  execute format('alter table %s force row level security', protected);
  if visible is not null then
    execute format('create policy tenant on %s to svc_app using (%s) with check (%s)', protected, visible,
      coalesce(writable, visible));
    execute format('grant %s on %s to svc_app', privileges, protected);
  end if;
  execute format('create policy across_tenants on %s to svc_system using (true) with check (true)', protected);
  execute format('grant %s on %s to svc_system', privileges, protected);
end
$$;
revoke execute on function protect_table from public;

-- UUIDv7, as the application makes them, for statements that insert many rows. The time is rounded down: an id whose
-- time is rounded to the nearest millisecond could be of the millisecond to come.
create function new_row_id() returns uuid language sql volatile parallel safe as $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
    substring(int8send(trunc(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1),
    'hex')::uuid
$$;

-- Which migrations ran is no secret, and readiness reports it.
grant select on knex_migrations to svc_app, svc_system;
grant select on muster_migration_checksums to svc_app, svc_system;
