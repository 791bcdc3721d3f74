-- The trail is read newest first: of an organization, of what concerns a partner itself, or of all.
create index audit_logs_newest_by_org on audit_logs (org_id, "timestamp" desc, id desc);
create index audit_logs_newest_of_partner on audit_logs (partner_id, "timestamp" desc, id desc) where org_id is null;
create index audit_logs_newest on audit_logs ("timestamp" desc, id desc);
-- By one action or by the few that a report counts, and by one person.
create index audit_logs_by_action on audit_logs (org_id, action, "timestamp" desc, id desc);
create index audit_logs_by_actor on audit_logs (actor_id, "timestamp" desc, id desc);
-- The first of these takes its place.
drop index audit_logs_by_org;
