-- Lists of names are in the order of ICU's root collation, not of code points: docs/decisions/name-order.md. A page of a
-- partner's organizations is read in that order from an index; other lists are short, or are sorted after they are read.
do $$
begin
  if not exists (select from pg_collation where collname = 'und-x-icu') then
    raise exception 'this Postgres was built without ICU, by whose rules Muster sorts names'
      using hint = 'Use a build with ICU, as the packages of all distributions and the official images are.';
  end if;
end
$$;

create index organizations_in_order on organizations (partner_id, name collate "und-x-icu", id)
  where deleted_at is null;

-- It served the order of before. An earlier release finds the organizations of a partner by the new one and sorts them.
drop index organizations_by_name;
