import { isIntact, printReport } from '../audit/verify-bundle.ts';
import { checkDatabase } from '../audit/installation-audit.ts';
import { writeEnvironmentFile } from '../whole-file.ts';
import { runDoctor } from '../doctor/run-doctor.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { configOf, logOf } from '../with-installation.ts';
import { passphraseOf, type PassphraseOptions, type Manifest, type Keys } from './manifest.ts';
import { restoreBackup, RestoreRefused, type RestoreResult, RestoreUnfinished } from './restore-backup.ts';
import { describe, failureText, notes, summaryOf } from './run-backup.ts';
import { type VerifiedBackup, verifyBackup } from './verify-backup.ts';
import { environmentText } from '../../config.ts';

/** Variables with paths or addresses that may differ on a new machine. */
const OF_THE_MACHINE =
  /^(DATABASE_URL|DATABASE_URL_APP|DATABASE_URL_SESSION|AUDIT_ADMIN_DATABASE_URL|REDIS_URL|DATA_DIR|HOST|PORT|NODE_ID|SVC_APP_DB_PASSWORD|POSTGRES_PASSWORD)$/;

/** The environment of the installation, including keys that were in files. */
function restoredEnvironment(keys: Keys, { id, createdAt }: Manifest): string {
  const { environment, encryptionKey, jwtSecret, oldEncryptionKeys } = keys;
  const values = { ...environment, JWT_SECRET: jwtSecret, SECRET_ENCRYPTION_KEY: encryptionKey };
  const old =
    oldEncryptionKeys.length === 0 ? {} : { SECRET_ENCRYPTION_KEYS_OLD: oldEncryptionKeys.join(',') };
  const places = Object.keys(values).filter((name) => OF_THE_MACHINE.test(name));
  return environmentText(
    [
      `The environment of the installation in the backup ${id} of ${createdAt}.`,
      ...(places.length === 0 ? [] : [`Check what may differ on this machine: ${places.join(', ')}.`]),
    ],
    { ...values, ...old },
  );
}

export interface RestoreOptions extends PassphraseOptions {
  replace?: true;
  environmentTo?: string;
  json?: true;
}

export async function runRestore(io: CommandIo, name: string, options: RestoreOptions): Promise<number> {
  const say = (line: string) => void (options.json === true || io.stdout.write(`${line}\n`));
  const verified = await verify(io, name, options, say).catch((error: unknown) => {
    throw new Error(`Nothing was restored. ${failureText(error)}`, { cause: error });
  });
  if (options.environmentTo !== undefined) {
    return writeEnvironment(io, options.environmentTo, verified, options);
  }
  const database = await restore(io, fileOf(io, name), verified, options, say);
  return check(io, verified, { database, options, say });
}

type Say = (line: string) => void;

async function verify(
  io: CommandIo,
  file: string,
  options: RestoreOptions,
  say: Say,
): Promise<VerifiedBackup> {
  const passphrase = await passphraseOf(io, options, { repeat: false });
  say(`Verifying ${file}`);
  const verified = await verifyBackup(fileOf(io, file), passphrase);
  const { id, createdAt } = verified.manifest;
  say(`The backup ${id} of ${createdAt} is complete: ${describe(verified.manifest)}.`);
  return verified;
}

async function restore(
  io: CommandIo,
  file: string,
  verified: VerifiedBackup,
  options: RestoreOptions,
  onStep: Say,
): Promise<RestoreResult['database']> {
  try {
    const config = configOf(io);
    const log = logOf(io, config);
    const replace = options.replace === true;
    return (await restoreBackup({ file, ...verified, replace, config, log, onStep })).database;
  } catch (error) {
    if (error instanceof RestoreRefused) throw error;
    throw new Error(
      error instanceof RestoreUnfinished
        ? `The database is restored, but a step after it has failed: run the command again. ${failureText(error.cause)}`
        : `The database has nothing of the backup: run the command again. ${failureText(error)}`,
      { cause: error },
    );
  }
}

async function writeEnvironment(
  io: CommandIo,
  file: string,
  { keys, manifest }: VerifiedBackup,
  options: RestoreOptions,
): Promise<number> {
  if (keys === undefined) {
    throw new Error('Give the passphrase: the environment is among the keys of the backup.');
  }
  await writeEnvironmentFile(fileOf(io, file), restoredEnvironment(keys, manifest), { force: false });
  io.stdout.write(
    options.json === true
      ? `${JSON.stringify({ ok: true, environment: file })}\n`
      : `The environment of the installation is in ${file}. Adapt what differs on this machine, and restore with it.\n`,
  );
  return 0;
}

/** A restore ends with its verification: the checks of the installation, and every chain of the audit trail. */
async function check(
  io: CommandIo,
  { manifest }: VerifiedBackup,
  { database, options, say }: { database: RestoreResult['database']; options: RestoreOptions; say: Say },
): Promise<number> {
  say(
    database === 'already'
      ? 'An earlier run had restored this database from the same backup. What was left to do is done.'
      : 'The database is restored.',
  );
  for (const note of notes(manifest)) say(note);
  say('Checking the installation');
  const doctor = await runDoctor(io, { outside: false });
  say(doctor.text);
  say('Verifying the audit trail');
  const { report, milliseconds } = await checkDatabase(io, {});
  if (options.json !== true) printReport(io, report, milliseconds, false);
  const auditIntact = isIntact(report);
  const ok = doctor.ok && auditIntact;
  if (options.json === true) {
    const result = { ok, database, ...summaryOf(manifest), checks: doctor.results, auditIntact };
    io.stdout.write(`${JSON.stringify(result)}\n`);
  } else {
    say(ok ? 'Restored. Start the server.' : 'Restored, with the findings above.');
  }
  return ok ? 0 : 1;
}
