-- Names are stored and searched in NFC (docs/decisions/text-from-others.md). This brings those to it that were stored
-- before. What machines report, such as software, comes with their next report.

-- Within the length of the index entry, as before.
create or replace function c2c_search_text(name text, metadata jsonb) returns text
language sql immutable parallel safe as $$
  select left(lower(normalize(name, nfc)), 240) || chr(31) || left(lower(normalize(
    coalesce(metadata ->> 'fromName', metadata ->> 'organizerName', '') || ' '
    || coalesce(metadata ->> 'from', metadata ->> 'organizer', metadata ->> 'address', ''), nfc)), 90)
$$;

set local role svc_system;

-- The job for items that were there before the search fills them again.
update c2c_items set search_text = null where search_text is not nfc normalized;

-- Reads the big table without a lock, and writes only what is not in NFC, which are few rows.
do $$
begin
  update devices set
    hostname = left(normalize(hostname, nfc), 255),
    display_name = left(normalize(display_name, nfc), 255),
    tags = array(select left(normalize(tag, nfc), 64) from unnest(tags) with ordinality t (tag, place)
      group by 1 order by min(place))
  where hostname is not nfc normalized or display_name is not nfc normalized
    or array_to_string(tags, ',') is not nfc normalized;
end
$$;

update users set name = left(normalize(name, nfc), 255) where name is not nfc normalized;
update sites set name = left(normalize(name, nfc), 255) where name is not nfc normalized;
update scripts set name = left(normalize(name, nfc), 255) where name is not nfc normalized;
update device_groups g set name = left(normalize(name, nfc), 255) where name is not nfc normalized
  -- Names are unique in an organization.
  and not exists (select from device_groups o where o.org_id = g.org_id and o.id <> g.id
    and lower(normalize(o.name, nfc)) = lower(normalize(g.name, nfc)));

reset role;
