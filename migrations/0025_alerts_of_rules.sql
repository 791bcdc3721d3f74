-- online
create index concurrently if not exists alerts_of_rule on alerts (rule_id) where rule_id is not null;
alter table alerts validate constraint alerts_rule_id_fkey;
