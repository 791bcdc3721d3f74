import { revokeKeysOf } from '../features/api-keys/index.ts';
import { passwordFault } from '../features/auth/index.ts';
import {
  createSystemAdmin,
  disableAdminMfa,
  listSystemAdmins,
  resetAdminPassword,
  type User,
} from '../features/users/index.ts';
import type { Tx } from '../platform/db/transaction.ts';
import type { Logger } from '../platform/logger.ts';
import { hashPassword } from '../platform/secrets/passwords.ts';
import { type CommandIo, askSecret, secretFrom } from './io.ts';
import { recordAsOperator, withInstallation } from './with-installation.ts';

export interface AdminOptions {
  email: string;
  json?: true;
}

export interface PasswordOptions extends AdminOptions {
  passwordStdin?: true;
}

export async function listAdmins(io: CommandIo, { json }: { json?: true }): Promise<void> {
  const admins = await withInstallation(io, { migrates: false }, ({ db }) => listSystemAdmins(db));
  const rows = admins.map(({ id, email, name, status, mfaEnabled, lastLoginAt }) => ({
    id,
    email,
    name,
    status,
    mfaEnabled,
    lastLoginAt: lastLoginAt?.toISOString() ?? null,
  }));
  if (json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, admins: rows })}\n`);
    return;
  }
  if (rows.length === 0) {
    io.stdout.write('There is no system administrator. Create one with: admin create\n');
  }
  for (const { email, status, mfaEnabled, lastLoginAt } of rows) {
    const factor = mfaEnabled ? 'second factor' : 'no second factor';
    io.stdout.write(`${email}  ${status}, ${factor}, last sign-in: ${lastLoginAt ?? 'never'}\n`);
  }
}

export async function createAdmin(
  io: CommandIo,
  { name, ...options }: PasswordOptions & { name: string },
): Promise<void> {
  const { email } = options;
  const passwordHash = await newPassword(io, options);
  await withInstallation(io, { migrates: false }, ({ db, log }) =>
    createSystemAdmin(db, { email, name, passwordHash }, recorder(log, 'user.create')),
  );
  report(io, options, `${email} is a system administrator.`);
}

export async function resetPassword(io: CommandIo, options: PasswordOptions): Promise<void> {
  const { email } = options;
  const passwordHash = await newPassword(io, options);
  await withInstallation(io, { migrates: false }, ({ db, log }) =>
    resetAdminPassword(db, { email, passwordHash }, { revokeKeysOf }, recorder(log, 'user.password.change')),
  );
  report(io, options, `${email} has the new password. Its sessions and API keys have ended.`);
}

export async function disableMfa(io: CommandIo, options: AdminOptions): Promise<void> {
  const { email } = options;
  const was = await withInstallation(io, { migrates: false }, ({ db, log }) =>
    disableAdminMfa(db, email, { revokeKeysOf }, recorder(log, 'user.mfa_disable')),
  );
  report(
    io,
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

async function newPassword(io: CommandIo, { passwordStdin }: PasswordOptions): Promise<string> {
  const password = passwordStdin === true ? await secretFrom(io, 'stdin') : await askTwice(io);
  const fault = passwordFault(password);
  if (fault !== undefined) throw new Error(fault);
  return hashPassword(password);
}

async function askTwice(io: CommandIo): Promise<string> {
  const first = await askSecret(io, 'New password: ');
  if (first === undefined) {
    throw new Error('There is no terminal to ask on: give the password with --password-stdin.');
  }
  if ((await askSecret(io, 'The same password again: ')) !== first) {
    throw new Error('The two passwords differ.');
  }
  return first;
}

function report(io: CommandIo, { email, json }: AdminOptions, text: string): void {
  io.stdout.write(json === true ? `${JSON.stringify({ ok: true, email, message: text })}\n` : `${text}\n`);
}
