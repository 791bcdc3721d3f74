import { clock } from '../../clock.ts';
import { SigningKeys, verificationDetails, VERIFY_ACTION } from '../../features/audit/index.ts';
import { checkStored, type StoredReport } from '../../features/audit/verification/stored-check.ts';
import type { Db } from '../../platform/db/pool.ts';
import { openSession } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { startFailureText } from '../../start-failure.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { recordAsOperator } from '../record-as-operator.ts';
import { type Installation, withInstallation } from '../with-installation.ts';
import type { VerifyOptions } from './verify-options.ts';
import { checkBundleFile, readKeysFile } from './bundle-file.ts';
import { isIntact, printReport } from './report.ts';

export async function verifyDatabase(io: CommandIo, options: VerifyOptions): Promise<number> {
  const { report, milliseconds } = await checkDatabase(io, options);
  return printReport(io, report, milliseconds, options.json === true);
}

export async function checkDatabase(
  io: CommandIo,
  options: VerifyOptions,
): Promise<{ report: StoredReport; milliseconds: number }> {
  const keys = options.keys === undefined ? undefined : await readKeysFile(fileOf(io, options.keys));
  const known = options.known === undefined ? undefined : await checkBundleFile(fileOf(io, options.known));
  if (known?.fault !== undefined) throw new Error(`${options.known} is itself not intact.`);
  const heads = new Map(known?.head === undefined ? [] : [[known.chainId, known.head]]);
  let milliseconds = 0;
  const check = async (db: Db, own: SigningKeys | undefined): Promise<StoredReport> => {
    const since = clock.monotonic();
    const trust = { ...(keys === undefined ? {} : { keys }), ...(own === undefined ? {} : { own }) };
    const report = await checkStored(db, trust, { only: options.org, known: heads });
    milliseconds = clock.monotonic() - since;
    return report;
  };
  const report =
    typeof options.database === 'string'
      ? await elsewhere(options.database, keys !== undefined, check)
      : await withInstallation(io, { migrates: false }, async (installation) => {
          const found = await check(installation.db, new SigningKeys(installation.secrets));
          await recordVerification(io, installation, found, options.org ?? null);
          return found;
        }).catch((error: unknown) => {
          throw new Error(`The audit trail could not be verified. ${startFailureText(error)}`);
        });
  return { report, milliseconds };
}

/** So that `muster doctor` knows of it. What was found counts as well where it cannot be recorded, as on a standby. */
async function recordVerification(
  io: CommandIo,
  { db, log }: Pick<Installation, 'db' | 'log'>,
  report: StoredReport,
  only: string | null,
): Promise<void> {
  try {
    await withSystem(db, 'record a verification of the audit trail', (tx) =>
      recordAsOperator(tx, log, {
        action: VERIFY_ACTION,
        resourceType: 'audit_logs',
        details: verificationDetails({ only, isIntact: isIntact(report), ...report }),
      }),
    );
  } catch (error) {
    io.stderr.write(`The verification could not be recorded. ${startFailureText(error)}\n`);
  }
}

/** Verifies a database whose secrets this installation does not have, so that only keys from --keys can be trusted. */
async function elsewhere(
  url: string,
  hasKeys: boolean,
  check: (db: Db, own: undefined) => Promise<StoredReport>,
): Promise<StoredReport> {
  if (!hasKeys) {
    throw new Error('Pass --keys with --database <url>: keys stored in that database prove nothing.');
  }
  const db = openSession(url, 'muster-audit-verify');
  try {
    return await check(db, undefined);
  } finally {
    await db.destroy();
  }
}
