-- online
create index concurrently if not exists c2c_items_search on c2c_items (org_id, config_id, id)
  include (user_email, kind, deleted_at, search_text);
create index concurrently if not exists c2c_items_not_searchable on c2c_items (id) where search_text is null;
-- The one begins with the same columns, and the other repeats the unique key.
drop index concurrently if exists c2c_items_of_config;
drop index concurrently if exists c2c_items_of_org;
