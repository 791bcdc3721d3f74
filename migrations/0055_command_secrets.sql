-- Secrets that commands refer to (docs/decisions/secrets-by-reference.md). The payload of a command holds references
-- only. A request writes secrets and never reads them; they are read when the command is sent, across tenants.

create table command_secrets (
  id uuid primary key,
  org_id uuid not null,
  command_id uuid not null,
  -- What the payload calls it. It means nothing without the command, so no other command can use it.
  ref uuid not null,
  -- Sealed.
  value text not null,
  unique (command_id, ref),
  foreign key (org_id, command_id) references commands (org_id, id) on delete cascade on update cascade
);
-- By organization first, as its key to the command is.
create index command_secrets_of_command on command_secrets (org_id, command_id);
select protect_table('command_secrets', 'org_id = any((select app_org_ids())::uuid[])', null, 'insert');
-- To send a command, to seal its secrets with a newer key, and to remove them with the end of the command.
grant select, update, delete on command_secrets to svc_system;

-- A command that has ended is never sent again, so nothing needs its secrets any more.
create function remove_command_secrets() returns trigger language plpgsql security definer
set search_path = pg_catalog, public as $$
begin
  delete from command_secrets where command_id = new.id;
  return null;
end
$$;
revoke execute on function remove_command_secrets() from public;
grant create on schema public to svc_system;
alter function remove_command_secrets() owner to svc_system;
revoke create on schema public from svc_system;
create trigger commands_end_of_secrets after update of finished_at on commands
  for each row when (old.finished_at is null and new.finished_at is not null) execute function remove_command_secrets();
