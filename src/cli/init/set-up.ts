import { randomBytes } from 'node:crypto';
import { addressKey } from '../../email-address.ts';
import { passwordFault } from '../../features/auth/index.ts';
import { listAllReleases } from '../../features/releases/index.ts';
import { createSystemAdmin, listSystemAdmins, type User } from '../../features/users/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { CommandIo } from '../io.ts';
import { recordAsOperator } from '../record-as-operator.ts';
import { withInstallation } from '../with-installation.ts';
import { createFirstTenant, type FirstTenant, type TenantNames } from './first-tenant.ts';

/** What `muster init` does in the database, without a running server and beside one. */

export interface SetUpRequest extends TenantNames {
  adminEmail?: string | undefined;
  /** Without one, a password is generated and told once. */
  adminPassword?: string | undefined;
}

export interface SetUp extends FirstTenant {
  administrator: { email: string; isNew: boolean; password?: string };
  /** With the new key, on machines of the systems that a release is there for. */
  installLine: string | null;
  hasRelease: boolean;
}

export function setUp(io: CommandIo, request: SetUpRequest): Promise<SetUp> {
  return withInstallation(io, { migrates: true }, async ({ db, log, config }) => {
    const { admin, password } = await administrator(db, log, request);
    const tenant = await withSystem(db, 'create the first provider', (tx) =>
      createFirstTenant(tx, log, admin, request),
    );
    const hasRelease = (await listAllReleases(db)).some(
      ({ component, promoted }) => component === 'watchdog' && promoted,
    );
    const server = (config.publicUrl ?? `http://${config.host}:${config.port}`).replace(/\/+$/, '');
    return {
      administrator: {
        email: admin.email,
        isNew: password !== undefined,
        ...(password === undefined || request.adminPassword !== undefined ? {} : { password }),
      },
      ...tenant,
      hasRelease,
      installLine:
        tenant.key !== undefined && hasRelease
          ? `curl -fsSL '${server}/install.sh?key=${encodeURIComponent(tenant.key.value)}' | sudo sh`
          : null,
    };
  });
}

/** The administrator who is named, or the first one; a password only where the account is new. */
async function administrator(
  db: Db,
  log: Logger,
  { adminEmail, adminPassword }: SetUpRequest,
): Promise<{ admin: User; password?: string }> {
  const present = await listSystemAdmins(db);
  const known =
    adminEmail === undefined
      ? present[0]
      : present.find(({ email }) => addressKey(email) === addressKey(adminEmail));
  if (known !== undefined) return { admin: known };
  if (adminEmail === undefined) {
    throw new Error('There is no system administrator yet. Name the first one with --admin-email.');
  }
  // Letters of both kinds and a digit, which the rules for passwords ask for.
  const password = adminPassword ?? `${randomBytes(18).toString('base64url')}-aA1`;
  const fault = passwordFault(password);
  if (fault !== undefined) throw new Error(fault);
  const passwordHash = await hashPassword(password);
  const admin = await createSystemAdmin(
    db,
    { email: adminEmail, name: 'Administrator', passwordHash },
    (tx, { id, email }) =>
      recordAsOperator(tx, log, {
        action: 'user.create',
        resourceType: 'user',
        resourceId: id,
        resourceName: email,
        details: { by: 'operator' },
      }),
  );
  return { admin, password };
}
