import { SigningKeys } from '../../features/audit/index.ts';
import { checkStored, type StoredReport } from '../../features/audit/verification/stored-check.ts';
import type { Db } from '../../platform/db/pool.ts';
import { openSession } from '../../platform/db/pool.ts';
import { startFailureText } from '../../start-failure.ts';
import { withInstallation } from '../with-installation.ts';
import type { VerifyOptions } from './verify-options.ts';
import { checkBundleFile, readKeysFile } from './bundle-file.ts';
import { printReport } from './report.ts';

export async function verifyDatabase(options: VerifyOptions): Promise<number> {
  const { report, milliseconds } = await checkDatabase(options);
  return printReport(report, milliseconds, options.json === true);
}

export async function checkDatabase(
  options: VerifyOptions,
): Promise<{ report: StoredReport; milliseconds: number }> {
  const keys = options.keys === undefined ? undefined : await readKeysFile(options.keys);
  const known = options.known === undefined ? undefined : await checkBundleFile(options.known);
  if (known?.fault !== undefined) throw new Error(`${options.known} is itself not intact.`);
  const heads = new Map(known?.head === undefined ? [] : [[known.chainId, known.head]]);
  let milliseconds = 0;
  const check = async (db: Db, own: SigningKeys | undefined): Promise<StoredReport> => {
    const since = performance.now();
    const trust = { ...(keys === undefined ? {} : { keys }), ...(own === undefined ? {} : { own }) };
    const report = await checkStored(db, trust, { only: options.org, known: heads });
    milliseconds = performance.now() - since;
    return report;
  };
  const report =
    typeof options.database === 'string'
      ? await elsewhere(options.database, keys !== undefined, check)
      : await withInstallation({ migrates: false }, ({ db, secrets }) =>
          check(db, new SigningKeys(secrets)),
        ).catch((error: unknown) => {
          throw new Error(`The audit trail could not be verified. ${startFailureText(error)}`);
        });
  return { report, milliseconds };
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
