-- A new organization belongs to the partner of whoever makes it, whatever organizations they may see.
drop policy tenant on organizations;
create policy tenant on organizations to svc_app
  using (partner_id = (select app_partner_wide()) or id = any((select app_listed_org_ids())::uuid[]))
  with check (partner_id = (select app_partner_id()));

-- The entry about an organization's deletion is written when it is deleted already, and so out of its partner's reach:
-- the partner may write it by its own name. The key makes sure that it is one of its own.
alter table audit_logs
  add foreign key (partner_id, org_id) references organizations (partner_id, id);
drop policy tenant on audit_logs;
create policy tenant on audit_logs to svc_app
  using (org_id = any((select app_org_ids())::uuid[]) or (org_id is null and partner_id = (select app_partner_id())))
  with check (org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_id()));
