-- What devices are found by beside their names (SHAPES 19): the last user, serial number, addresses and tags of each, as
-- one text in lower case. The primary key holds the texts, so a search reads those of its tenant from one index, as it
-- reads names from `devices_search`. They are in a table of their own, so that a new user of a machine changes no index
-- of `devices` (docs/decisions/search.md).
create table device_search_facts (
  org_id uuid not null,
  device_id uuid not null,
  facts text not null,
  primary key (org_id, device_id) include (facts),
  foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade
);
select protect_table('device_search_facts', 'org_id = any((select app_org_ids())::uuid[])', null, 'select');
grant insert, update, delete on device_search_facts to svc_system;

-- A machine with many containers has hundreds of interfaces. The first addresses of each kind are kept, those of the
-- machine itself before those of its interfaces.
create function device_mac_addresses(network jsonb, interfaces jsonb) returns setof text
language sql immutable parallel safe rows 2 as $$
  select a.address
  from (
    select 1, network ->> 'macAddress'
    union all select 2, jsonb_path_query(network, '$.macAddresses[*]') #>> '{}'
    union all select 3, jsonb_path_query(interfaces, '$[*].macAddress') #>> '{}'
  ) a (place, address)
  where a.address <> ''
  group by a.address order by min(a.place), a.address limit 16
$$;

-- Without those that every machine has: of itself, and of its link only.
create function device_ip_addresses(network jsonb, interfaces jsonb) returns setof text
language sql immutable parallel safe rows 2 as $$
  select a.address
  from (
    select 1, network ->> 'ipAddress'
    union all select 2, network ->> 'publicIp'
    union all select 3, jsonb_path_query(interfaces, '$[*].ipAddresses[*]') #>> '{}'
  ) a (place, address)
  where a.address <> '' and a.address not like '127.%' and a.address <> '::1' and a.address not ilike 'fe80:%'
  group by a.address order by min(a.place), a.address limit 24
$$;

-- Each fact stands between two separators (chr(31), which no keyboard types), so that `like` finds whole facts and their
-- beginnings. Hardware addresses are written with colons and without. A tag begins with a space: it says what kind of
-- device it is and not which one, so it is found as a word, after devices whose names begin with the text.
create function device_search_text(
  last_user text, hardware jsonb, network jsonb, tags text[], interfaces jsonb
) returns text language plpgsql immutable parallel safe as $$
declare
  facts text;
begin
  select lower(chr(31) || string_agg(f.fact, chr(31) order by f.place) || chr(31)) into facts
  from (
    values (1, last_user), (2, hardware ->> 'serialNumber')
    union all
    select 3, m || chr(31) || replace(m, ':', '') from device_mac_addresses(network, interfaces) m
    union all
    select 4, i from device_ip_addresses(network, interfaces) i
    union all
    select 5, ' ' || t from unnest(tags) t
  ) f (place, fact)
  where f.fact <> '';
  -- An entry of an index has room for 2,704 bytes. A letter may take four; few texts of this length have any such.
  facts := left(coalesce(facts, ''), 2400);
  return case when octet_length(facts) > 2400 then left(facts, 600) else facts end;
end
$$;

-- Triggers keep the texts, so that the release before keeps them too while it runs beside.
create function keep_device_search_facts() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  if new.condition = 'decommissioned' then
    delete from device_search_facts where org_id = new.org_id and device_id = new.id;
    return null;
  end if;
  insert into device_search_facts as f (org_id, device_id, facts)
  values (new.org_id, new.id, device_search_text(new.last_user, new.hardware, new.network, new.tags,
    (select i.interfaces from device_inventory i where i.org_id = new.org_id and i.device_id = new.id)))
  on conflict (org_id, device_id) do update set facts = excluded.facts where f.facts <> excluded.facts;
  return null;
end
$$;
revoke execute on function keep_device_search_facts() from public;

create function keep_device_search_addresses() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  insert into device_search_facts as f (org_id, device_id, facts)
  select d.org_id, d.id, device_search_text(d.last_user, d.hardware, d.network, d.tags, new.interfaces)
  from devices d where d.org_id = new.org_id and d.id = new.device_id and d.condition <> 'decommissioned'
  on conflict (org_id, device_id) do update set facts = excluded.facts where f.facts <> excluded.facts;
  return null;
end
$$;
revoke execute on function keep_device_search_addresses() from public;

grant create on schema public to svc_system;
alter function keep_device_search_facts() owner to svc_system;
alter function keep_device_search_addresses() owner to svc_system;
revoke create on schema public from svc_system;

create trigger devices_search_added after insert on devices
  for each row execute function keep_device_search_facts();
create trigger devices_search_changed after update of last_user, hardware, network, tags, condition on devices
  for each row when (
    (old.last_user, old.hardware, old.network, old.tags) is distinct from
    (new.last_user, new.hardware, new.network, new.tags)
    or (old.condition = 'decommissioned') <> (new.condition = 'decommissioned'))
  execute function keep_device_search_facts();
create trigger device_inventory_search_added after insert on device_inventory
  for each row when (new.interfaces <> '[]')
  execute function keep_device_search_addresses();
create trigger device_inventory_search_changed after update of interfaces on device_inventory
  for each row when (old.interfaces is distinct from new.interfaces)
  execute function keep_device_search_addresses();

-- A device that moves updates its presence last (docs/decisions/migrations.md, rule 7).
alter table device_presence
  drop constraint device_presence_device_fkey,
  add constraint device_presence_device_fkey foreign key (org_id, device_id) references devices (org_id, id)
    on delete cascade on update cascade not valid;
