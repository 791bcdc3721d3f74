-- Monthly reports of organizations (src/features/reports).

-- When a device was taken out of service. Null for those that were before this file: when is not known.
alter table devices add column decommissioned_at timestamptz(3);

create function note_decommissioning() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
  new.decommissioned_at := case when new.condition = 'decommissioned' then now() end;
  return new;
end
$$;
create trigger devices_note_decommissioning before update of condition on devices
  for each row when ((old.condition = 'decommissioned') <> (new.condition = 'decommissioned'))
  execute function note_decommissioning();

-- The provider of an organization as its reports name it. A person of an organization does not see the row of the
-- provider. Callers join it to organizations, of which they see their own only.
create function report_provider(organization uuid)
returns table (name varchar, logo_url text, accent_color varchar)
language sql stable security definer set search_path = pg_catalog, public as $$
  select p.name, b.logo_url, b.accent_color from organizations o join partners p on p.id = o.partner_id
  left join partner_login_branding b on b.partner_id = p.id where o.id = organization
$$;
revoke execute on function report_provider(uuid) from public;
grant execute on function report_provider(uuid) to svc_app, svc_system;

grant create on schema public to svc_system;
alter function report_provider(uuid) owner to svc_system;
revoke create on schema public from svc_system;
