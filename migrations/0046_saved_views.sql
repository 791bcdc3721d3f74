-- Saved views: names for what a person has chosen on a list of the dashboard (src/features/saved-views).
create table saved_views (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  -- Where it was made, and whom it is shared with: an organization, a partner, or neither for the operators.
  partner_id uuid references partners (id) on delete cascade,
  org_id uuid references organizations (id) on delete cascade,
  list varchar(40) not null,
  name varchar(60) not null check (name <> ''),
  search jsonb not null,
  is_shared boolean not null default false,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  check (num_nonnulls(partner_id, org_id) <= 1)
);
create unique index saved_views_name on saved_views
  (user_id, list, lower(name), coalesce(org_id, partner_id, '00000000-0000-0000-0000-000000000000'));
create index saved_views_of_organization on saved_views (org_id, list) where org_id is not null;
create index saved_views_of_partner on saved_views (partner_id, list) where partner_id is not null;
-- The service shows views of others that they share. A person who reaches only some organizations of a partner sees no
-- others of the partner, which may say what was searched for in all of them.
select protect_table('saved_views',
  'org_id = any((select app_org_ids())::uuid[]) or partner_id = (select app_partner_wide())
    or (user_id = (select app_user_id()) and partner_id = (select app_partner_id()))');
