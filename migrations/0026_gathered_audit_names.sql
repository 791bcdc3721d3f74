-- A part of a name is looked for in sheets of names instead of name by name (docs/decisions/audit-reading.md): no index
-- over the text can serve under row level security, so what serves is to make the reading cheap.

-- In the order in which they were noted, by which it is known what is on a sheet already.
alter table audit_resources add column no bigint generated always as identity;
create index audit_resources_as_noted on audit_resources (chain_id, no);

-- Every name of `audit_resources` up to the highest `through` of its chain, some dozens of one type to a sheet.
create table audit_name_sheets (
  chain_id uuid not null,
  resource_type varchar(50) not null,
  through bigint not null,
  sheet integer not null,
  names varchar(255)[] not null,
  -- The type and the names in small letters and in one text.
  small_letters text not null,
  primary key (chain_id, through, resource_type, sheet)
);
select protect_table('audit_name_sheets', 'chain_id = any((select app_chain_ids())::uuid[])', 'false', 'select');
grant insert, delete on audit_name_sheets to svc_system;
