import { revokeKeysOf } from '../../features/api-keys/index.ts';
import { passwordFault } from '../../features/auth/index.ts';
import {
  createSystemAdmin,
  disableAdminMfa,
  listSystemAdmins,
  resetAdminPassword,
  type User,
} from '../../features/users/index.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import { recordAsOperator } from '../record-as-operator.ts';
import { askSecret, secretFrom } from '../secret-input.ts';
import { withInstallation } from '../with-installation.ts';

export interface AdminOptions {
  email: string;
  json?: true;
}

export interface PasswordOptions extends AdminOptions {
  passwordStdin?: true;
}

export async function listAdmins({ json }: { json?: true }): Promise<void> {
  const admins = await withInstallation({ migrates: false }, ({ db }) => listSystemAdmins(db));
  const rows = admins.map(({ id, email, name, status, mfaEnabled, lastLoginAt }) => ({
    id,
    email,
    name,
    status,
    mfaEnabled,
    lastLoginAt: lastLoginAt?.toISOString() ?? null,
  }));
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ ok: true, admins: rows })}\n`);
    return;
  }
  if (rows.length === 0) {
    process.stdout.write('There is no system administrator. Create one with: admin create\n');
  }
  for (const { email, status, mfaEnabled, lastLoginAt } of rows) {
    const factor = mfaEnabled ? 'second factor' : 'no second factor';
    process.stdout.write(`${email}  ${status}, ${factor}, last sign-in: ${lastLoginAt ?? 'never'}\n`);
  }
}

export async function createAdmin({ name, ...options }: PasswordOptions & { name: string }): Promise<void> {
  const { email } = options;
  const passwordHash = await newPassword(options);
  await withInstallation({ migrates: false }, ({ db, log }) =>
    createSystemAdmin(db, { email, name, passwordHash }, recorder(log, 'user.create')),
  );
  report(options, `${email} is a system administrator.`);
}

export async function resetPassword(options: PasswordOptions): Promise<void> {
  const { email } = options;
  const passwordHash = await newPassword(options);
  await withInstallation({ migrates: false }, ({ db, log }) =>
    resetAdminPassword(db, { email, passwordHash }, { revokeKeysOf }, recorder(log, 'user.password.change')),
  );
  report(options, `${email} has the new password. Its sessions and API keys have ended.`);
}

export async function disableMfa(options: AdminOptions): Promise<void> {
  const { email } = options;
  const was = await withInstallation({ migrates: false }, ({ db, log }) =>
    disableAdminMfa(db, email, { revokeKeysOf }, recorder(log, 'user.mfa_disable')),
  );
  report(
    options,
    was
      ? `${email} signs in with the password alone. Its sessions and API keys have ended.`
      : `${email} had no second factor. Nothing was changed.`,
  );
}

const recorder =
  (log: Logger, action: string) =>
  (tx: Tx, { id, email }: Pick<User, 'id' | 'email'>) =>
    recordAsOperator(tx, log, {
      action,
      resourceType: 'user',
      resourceId: id,
      resourceName: email,
      details: { by: 'operator' },
    });

async function newPassword({ passwordStdin }: PasswordOptions): Promise<string> {
  const password = passwordStdin === true ? await secretFrom('stdin') : await askTwice();
  const fault = passwordFault(password);
  if (fault !== undefined) throw new Error(fault);
  return hashPassword(password);
}

async function askTwice(): Promise<string> {
  const first = await askSecret('New password: ');
  if (first === undefined) {
    throw new Error('There is no terminal to ask on: give the password with --password-stdin.');
  }
  if ((await askSecret('The same password again: ')) !== first) throw new Error('The two passwords differ.');
  return first;
}

function report({ email, json }: AdminOptions, text: string): void {
  process.stdout.write(
    json === true ? `${JSON.stringify({ ok: true, email, message: text })}\n` : `${text}\n`,
  );
}
