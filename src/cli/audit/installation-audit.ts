import { clock } from '../../clock.ts';
import {
  SigningKeys,
  verificationDetails,
  VERIFY_ACTION,
  createEntryArchive,
  NameIndexCompactor,
  AuditPruner,
} from '../../features/audit/index.ts';
import { checkStored, type StoredReport } from '../../features/audit/stored-check.ts';
import { type Db, openSession } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { startFailureText } from '../../start-failure.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { recordAsOperator, type Installation, withInstallation } from '../with-installation.ts';
import { type VerifyOptions, checkBundleFile, readKeysFile, isIntact, printReport } from './verify-bundle.ts';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { exportBundle, recordBundleExport } from '../../features/audit/export.service.ts';

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

/** Records the result for `muster doctor`. The result counts even if it cannot be recorded, as on a standby. */
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

/** Verifies a database without access to its secrets, so only keys from --keys can be trusted. */
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

/** Writes lines to a stream. Returns a promise while the buffer of the stream is full. */
export function lineWriter(output: WriteStream): (line: string) => undefined | Promise<void> {
  let full: Promise<void> | undefined;
  return (line) => {
    if (!output.write(`${line}\n`)) {
      full ??= once(output, 'drain').then(() => {
        full = undefined;
      });
    }
    return full;
  };
}

/** Writes to a temporary file and renames it, so that the target is either complete or absent. */
export async function exportToFile(io: CommandIo, chainId: string, name: string): Promise<void> {
  const file = fileOf(io, name);
  const draft = `${file}.${randomBytes(8).toString('hex')}.tmp`;
  const output = createWriteStream(draft, { mode: 0o600 });
  const ended = finished(output);
  // The rejection is handled below; until then it must not crash the process.
  ended.catch(() => {});
  try {
    const { entries } = await withInstallation(io, { migrates: false }, async (installation) => {
      const exported = await exportBundle(installation.db, chainId, lineWriter(output));
      await recordBundleExport(installation, chainId, exported);
      return exported;
    });
    output.end();
    await ended;
    await rename(draft, file);
    io.stdout.write(`${entries} entries of chain ${chainId} written to ${name}\n`);
  } catch (error) {
    output.destroy();
    await rm(draft, { force: true });
    throw error;
  }
}

/** Returns the exit code: 1 if the entries of some chain could not be removed. */
export async function pruneNow(io: CommandIo): Promise<number> {
  const { ran, removed, failed } = await withInstallation(io, { migrates: false }, (installation) =>
    prunerOf(installation).prune(),
  ).catch((error: unknown) => {
    throw new Error(`No entries could be removed. ${startFailureText(error)}`);
  });
  if (ran === 'off') throw new Error('Set AUDIT_ADMIN_DATABASE_URL: only its role can remove audit entries.');
  if (ran === 'elsewhere') throw new Error('A server is pruning the audit trail right now.');
  io.stdout.write(
    `${removed} entries removed${failed === 0 ? '' : `; ${failed} chains failed, see the log above`}\n`,
  );
  return failed === 0 ? 0 : 1;
}

function prunerOf({ db, auditAdminUrl: adminUrl, secrets, log, config }: Installation): AuditPruner {
  const keys = new SigningKeys(secrets);
  const { auditArchive } = config;
  const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
  return new AuditPruner({
    db,
    adminUrl,
    keys,
    archive,
    compactor: new NameIndexCompactor({ db, log }),
    log,
  });
}

export async function rotateSigningKey(io: CommandIo): Promise<void> {
  const keyId = await withInstallation(io, { migrates: false }, ({ db, secrets }) =>
    new SigningKeys(secrets).rotate(db),
  );
  io.stdout.write(`New batches will be signed with the key ${keyId}.\n`);
}
