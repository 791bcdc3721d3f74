-- A device that is back in service is judged by the figures that it reports from then on. What it reported before it was
-- taken out of service may be months old. As definer, because a tenant does not see the rules of its partner.
create function forget_figures_of_restored_device() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  delete from alert_rule_matches m using alert_rules r
  where m.org_id = new.org_id and m.device_id = new.id and r.id = m.rule_id and r.condition_kind = 'metric';
  return new;
end
$$;
revoke execute on function forget_figures_of_restored_device() from public;
grant create on schema public to svc_system;
alter function forget_figures_of_restored_device() owner to svc_system;
revoke create on schema public from svc_system;
create trigger devices_forget_figures_when_restored after update of condition on devices
  for each row when (old.condition = 'decommissioned' and new.condition <> 'decommissioned')
  execute function forget_figures_of_restored_device();
