import { readConfig } from '../../config.ts';
import { createLogger } from '../../platform/logger.ts';
import { isIntact, printReport } from '../audit/report.ts';
import { checkDatabase } from '../audit/verify-database.ts';
import { writeEnvironmentFile } from '../environment-file.ts';
import { runDoctor } from '../doctor/run-doctor.ts';
import { passphraseOf, type PassphraseOptions } from './passphrase.ts';
import { restoreBackup } from './restore-backup.ts';
import { restoredEnvironment } from './restored-environment.ts';
import { describe, failureText, notes, summaryOf } from './run-backup.ts';
import { type VerifiedBackup, verifyBackup } from './verify-backup.ts';

export interface RestoreOptions extends PassphraseOptions {
  replace?: true;
  environmentTo?: string;
  json?: true;
}

export async function runRestore(file: string, options: RestoreOptions): Promise<number> {
  const say = (line: string) => void (options.json === true || process.stdout.write(`${line}\n`));
  try {
    const passphrase = await passphraseOf(options, { repeat: false });
    say(`Verifying ${file}`);
    const verified = await verifyBackup(file, passphrase);
    say(
      `The backup ${verified.manifest.id} of ${verified.manifest.createdAt} is complete: ${describe(verified.manifest)}.`,
    );
    if (options.environmentTo !== undefined) {
      return await writeEnvironment(options.environmentTo, verified, options);
    }
    const config = readConfig();
    const log = createLogger(config.logLevel === 'info' ? 'warn' : config.logLevel);
    const { database } = await restoreBackup({
      file,
      ...verified,
      replace: options.replace === true,
      config,
      log,
      onStep: say,
    });
    return await check(verified, { database, options, say });
  } catch (error) {
    throw new Error(`Nothing of the database was restored. ${failureText(error)}`, { cause: error });
  }
}

async function writeEnvironment(
  file: string,
  { keys, manifest }: VerifiedBackup,
  options: RestoreOptions,
): Promise<number> {
  if (keys === undefined)
    throw new Error('Give the passphrase: the environment is among the keys of the backup.');
  await writeEnvironmentFile(file, restoredEnvironment(keys, manifest), { force: false });
  process.stdout.write(
    options.json === true
      ? `${JSON.stringify({ ok: true, environment: file })}\n`
      : `The environment of the installation is in ${file}. Adapt what differs on this machine, and restore with it.\n`,
  );
  return 0;
}

/** A restore ends with the proof that it is whole: the checks of the installation, and every chain of the audit trail. */
async function check(
  { manifest }: VerifiedBackup,
  { database, options, say }: { database: string; options: RestoreOptions; say: (line: string) => void },
): Promise<number> {
  say(
    database === 'already'
      ? 'An earlier run had restored this database from the same backup. What was left to do is done.'
      : 'The database is restored.',
  );
  for (const note of notes(manifest)) say(note);
  say('Checking the installation');
  const doctor = await runDoctor({ outside: false });
  say(doctor.text);
  say('Verifying the audit trail');
  const { report, milliseconds } = await checkDatabase({});
  if (options.json !== true) printReport(report, milliseconds, false);
  const auditIntact = isIntact(report);
  const ok = doctor.ok && auditIntact;
  if (options.json === true) {
    const result = { ok, database, ...summaryOf(manifest), checks: doctor.results, auditIntact };
    process.stdout.write(`${JSON.stringify(result)}\n`);
  } else {
    say(ok ? 'Restored. Start the server.' : 'Restored, with the findings above.');
  }
  return ok ? 0 : 1;
}
