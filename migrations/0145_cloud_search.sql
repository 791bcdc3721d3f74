-- Text search in cloud items (docs/decisions/cloud-backup.md). What is searched lies in one column, which an index
-- includes: row level security has the tenant of each row checked before a `like`, so no index over words or trigrams
-- can serve it.

-- Only immutable functions, so that Postgres writes this in place instead of calling it for each row.
-- In lower case, short enough that an entry of the index holds it in any alphabet: 331 characters of four bytes each.
create function c2c_search_text(name text, metadata jsonb) returns text language sql immutable parallel safe as $$
  select left(lower(name), 240) || chr(31) || left(lower(
    coalesce(metadata ->> 'fromName', metadata ->> 'organizerName', '') || ' '
    || coalesce(metadata ->> 'from', metadata ->> 'organizer', metadata ->> 'address', '')), 90)
$$;

-- Null: not filled yet. A job fills it for items that were there before.
alter table c2c_items add column search_text text;

-- A trigger, because the release before this one, which may still be running, does not know the column.
create function set_c2c_search_text() returns trigger language plpgsql as $$
begin
  new.search_text := c2c_search_text(new.name, new.metadata);
  return new;
end
$$;
create trigger c2c_items_search_text before insert or update of name, metadata on c2c_items
  for each row execute function set_c2c_search_text();

-- What vacuum has not seen is looked up in the table one by one, so it comes long before a fifth of the items is new.
alter table c2c_items set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05);
