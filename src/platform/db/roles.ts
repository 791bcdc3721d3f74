import type { Knex } from 'knex';
import { credentialsOf } from '../../database-url.ts';
import { connectToPrimary } from './primary.ts';

/** The role that serves requests (SPEC 5.11). */
export const APP_ROLE = 'svc_app';
/** The role that prunes the audit trail, on a connection of its own. */
export const AUDIT_ADMIN_ROLE = 'svc_audit_admin';

export class UnsafeDatabaseError extends Error {
  readonly faults: string[];

  constructor(faults: string[]) {
    super(`The database is not safe to serve from:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.name = 'UnsafeDatabaseError';
    this.faults = faults;
  }
}

/** Lets one of our roles sign in with the password of `url`, if it can't yet. Managed databases whose administrator has
 * prepared the role are left as they are. */
export async function provisionRole(
  owner: Knex,
  url: string,
  role: typeof APP_ROLE | typeof AUDIT_ADMIN_ROLE,
): Promise<void> {
  if (await canConnect(url)) return;
  const { user, password } = credentialsOf(url);
  if (user !== role) return;
  const literal = `'${password.replaceAll("'", "''")}'`;
  await owner.raw(`alter role ${role} login password ${literal.replaceAll('?', '\\?')}`);
  const { rows } = await owner.raw('select current_database() as name');
  await owner.raw('grant connect on database ?? to ??', [rows[0].name, role]);
}

async function canConnect(url: string): Promise<boolean> {
  try {
    const probe = await connectToPrimary(url, { application_name: 'muster-probe' });
    await probe.end();
    return true;
  } catch {
    // Whatever stands in the way is reported when the real pool opens.
    return false;
  }
}

/** Tables that hold no tenant's data and that the serving role can only read. */
export const UNPROTECTED_TABLES = ['knex_migrations', 'knex_migrations_lock', 'muster_migration_checksums'];

/**
 * Refuses to serve with a role that could see across tenants, or from tables that would let it. Run on the very
 * pool that serves requests, whatever AUTO_MIGRATE says.
 */
export async function assertSafeRole(db: Knex): Promise<void> {
  const faults: string[] = [];
  const { rows } = await db.raw(
    `select current_user as name, r.rolsuper, r.rolbypassrls,
      array(select p.rolname::text from pg_roles p
        where (p.rolsuper or p.rolbypassrls or p.rolname = '${AUDIT_ADMIN_ROLE}') and p.oid <> r.oid
        and pg_has_role(current_user, p.oid, 'MEMBER')) as privileged,
      array(select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'public' and c.relkind in ('r', 'p') and pg_has_role(current_user, c.relowner, 'MEMBER'))
        as owned,
      coalesce((select pg_has_role(current_user, a.oid, 'USAGE') from pg_roles a where a.rolname = 'svc_app'), false)
        as serves
    from pg_roles r where r.rolname = current_user`,
  );
  const role = rows[0] as
    | {
        name: string;
        rolsuper: boolean;
        rolbypassrls: boolean;
        privileged: string[];
        owned: string[];
        serves: boolean;
      }
    | undefined;
  if (role === undefined) throw new UnsafeDatabaseError(['the serving role cannot be read from pg_roles']);
  if (role.rolsuper) faults.push(`the serving role "${role.name}" is a superuser`);
  if (role.rolbypassrls) faults.push(`the serving role "${role.name}" bypasses row level security`);
  if (!role.rolsuper && role.privileged.length > 0) {
    faults.push(
      `the serving role "${role.name}" can become ${role.privileged.join(', ')}, which is not bound by it`,
    );
  }
  if (!role.rolsuper && role.owned.length > 0) {
    faults.push(`the serving role "${role.name}" owns ${role.owned.slice(0, 5).join(', ')}`);
  }
  if (!role.serves) faults.push(`the serving role "${role.name}" is not a member of ${APP_ROLE}`);

  const open = await db.raw(
    `select c.relname::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity)
      and c.relname <> all (?)`,
    [UNPROTECTED_TABLES],
  );
  for (const table of open.rows as { name: string }[]) {
    faults.push(`table "${table.name}" is not protected by forced row level security`);
  }
  if (faults.length > 0) throw new UnsafeDatabaseError(faults);
}
