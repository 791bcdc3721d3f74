-- Versions that were fetched completely from GitHub. A version promotes itself once, when it is complete for the first
-- time, and the hourly job leaves it alone afterwards: an operator who took it back or deleted it has decided.
create table release_syncs (
  version varchar(20) primary key,
  completed_at timestamptz(3) not null default now()
);
select protect_table('release_syncs', null, null, 'select, insert');
