-- An administrator removes the second factors of a person who has lost them (src/features/users/member.service.ts).
-- Tenants see the factors of no person but the caller, so they end with the mark on the account, which tenants may
-- change of the people that they see.

create function end_second_factors() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
  -- The recovery codes go with the authenticator app.
  delete from user_mfa where user_id = new.id;
  delete from passkeys where user_id = new.id;
  delete from passkey_challenges where user_id = new.id;
  delete from mfa_challenges where user_id = new.id;
  return null;
end
$$;
revoke execute on function end_second_factors() from public;
grant create on schema public to svc_system;
alter function end_second_factors() owner to svc_system;
revoke create on schema public from svc_system;
create trigger users_second_factors_end after update of mfa_enabled on users
  for each row when (old.mfa_enabled and not new.mfa_enabled)
  execute function end_second_factors();
