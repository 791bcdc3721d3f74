-- Global search (SPEC 4.7) looks for any part of a name. Row level security has each row's tenant checked before a `like`,
-- so no index over the text can serve it; what serves is to read nothing else than the tenant's names, from an index that
-- holds them. It is written when a device is renamed, not when it reports: docs/decisions/search.md.
alter table devices add column search_text text
  generated always as (lower(hostname || chr(31) || coalesce(display_name, ''))) stored;
create index devices_search on devices (org_id) include (search_text, id) where condition <> 'decommissioned';
