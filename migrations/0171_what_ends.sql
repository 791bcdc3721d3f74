-- What ends with a person, a device or a tenant (docs/security.md, "What ends with what").

-- Whether a person has permissions in organizations now. `in_orgs` null: in the partner as a whole.
create function person_still_holds(wanted uuid, in_partner uuid, in_orgs uuid[], needed text[]) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (
    select from person_holder(wanted) h
    where (h.partner_status is null or h.partner_status = 'active')
      and (
        h.scope = 'system'
        or (h.scope = 'organization' and in_orgs = array[h.org_id])
        or (h.scope = 'partner' and h.partner_id = in_partner
          and (h.org_access = 'all' or in_orgs <@ coalesce(h.selected_org_ids, '{}'))))
      and not exists (
        select from unnest(needed) n
        where not h.permissions && array[n, split_part(n, ':', 1) || ':*', '*:*']))
$$;

-- Links to a new password, and sign-ins that lack the second factor, do not wait until the person is enabled again, or
-- is a member of another tenant.
create function end_open_links() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
  person uuid := case when tg_op = 'DELETE' then to_jsonb(old) ->> 'user_id' else to_jsonb(new) ->> 'id' end;
begin
  delete from password_resets where user_id = person;
  delete from mfa_challenges where user_id = person;
  return null;
end
$$;

-- A device that has left service does not finish its backups and restores: whoever has it could read and write on.
create function end_store_credentials_of_device() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
  update backup_store_credentials set ended_at = now()
  where ended_at is null and id in (
    select credential_id from backup_jobs where device_id = new.id and finished_at is null
    union all select credential_id from backup_restores where device_id = new.id and finished_at is null
    union all select credential_id from backup_verifications where device_id = new.id and finished_at is null
    union all select unnest(array[source_credential_id, vault_credential_id])
      from backup_vault_syncs where device_id = new.id and finished_at is null
    union all select credential_id from backup_vm_restores where device_id = new.id);
  return null;
end
$$;

grant create on schema public to svc_system;
alter function person_still_holds(uuid, uuid, uuid[], text[]) owner to svc_system;
alter function end_open_links() owner to svc_system;
alter function end_store_credentials_of_device() owner to svc_system;
revoke create on schema public from svc_system;
revoke execute on function person_still_holds(uuid, uuid, uuid[], text[]), end_open_links(),
  end_store_credentials_of_device() from public;
grant execute on function person_still_holds(uuid, uuid, uuid[], text[]) to svc_system;

create trigger users_links_end after update of status on users
  for each row when (old.status is distinct from new.status and new.status <> 'active')
  execute function end_open_links();
create trigger system_users_links_end after delete on system_users
  for each row execute function end_open_links();
create trigger partner_users_links_end after delete on partner_users
  for each row execute function end_open_links();
create trigger organization_users_links_end after delete on organization_users
  for each row execute function end_open_links();
create trigger devices_store_credentials_end after update of condition on devices
  for each row when (old.condition is distinct from new.condition and new.condition = 'decommissioned')
  execute function end_store_credentials_of_device();

-- As before, but only the server itself still opens a repository of a tenant that is gone, and a recovery of a machine
-- ends with the right of whoever has created its token.
grant create on schema public to svc_system;
set local role svc_system;
create or replace function backup_store_request(wanted_credential uuid, wanted_type text, wanted_name text) returns table (
  secret_hash text, role text, repository_id uuid, org_id uuid, partner_id uuid, job_id uuid, as_of timestamptz,
  snapshot_name text, expires_at timestamptz, is_live boolean, is_pruning boolean, size bigint,
  object_credential_id uuid, object_role text, arrived_at timestamptz, trashed_at timestamptz, lost_at timestamptz
) language sql stable security definer set search_path = pg_catalog, public as $$
  select c.secret_hash, c.role, c.repository_id, c.org_id, g.partner_id, c.job_id, c.as_of, c.snapshot_name,
    c.expires_at,
    c.ended_at is null and c.expires_at > now() and (c.role = 'server' or (
      g.deleted_at is null and g.status <> 'churned' and p.deleted_at is null and p.status <> 'churned'
      and not exists (
        select from backup_recovery_tokens t
        where t.id = c.job_id
          and not person_still_holds(t.created_by, g.partner_id, array[c.org_id], array['recovery:execute'])))),
    coalesce(r.pruning_until > now(), false),
    o.size, o.credential_id, w.role, o.arrived_at, o.trashed_at, o.lost_at
  from backup_store_credentials c
  join backup_repositories r on r.id = c.repository_id
  join organizations g on g.id = c.org_id
  join partners p on p.id = g.partner_id
  left join backup_objects o on o.repository_id = c.repository_id and o.type = wanted_type and o.name = wanted_name
  left join backup_store_credentials w on w.id = o.credential_id
  where c.id = wanted_credential
$$;
reset role;
revoke create on schema public from svc_system;
