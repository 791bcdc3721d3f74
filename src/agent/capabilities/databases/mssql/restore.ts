import { open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../../clock.ts';
import { SqlErrorCode, SqlInstance } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { dropRestoringSql, freeNameSql, restoreSql } from '../../../sql-server/sql-text.ts';
import { databaseError } from '../database-error.ts';
import type { ChainPart, FileRestoreOrder, OpenFileRestore } from '../engine-port.ts';
import { MSSQL_FILE, type MssqlParts } from './mssql-parts.ts';

/** A chain of backups becomes a new database: each part is laid into a folder, restored from there and removed. */

const Answer = z.unknown();

export async function openFileRestore(
  { run, toLocal = (folder) => folder }: MssqlParts,
  order: FileRestoreOrder,
): Promise<OpenFileRestore> {
  const { restoreId, targetPath, targetDatabase, parts, pointInTime, noRecovery } = order;
  if (targetDatabase === undefined) {
    throw databaseError('DATABASE_UNSUPPORTED', 'The new database has to have a name.');
  }
  const instance = SqlInstance.parse(order.instance);
  const limits = { signal: order.signal, timeoutMs: order.timeoutSeconds * 1000 };
  const folder = toLocal(targetPath);
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory() !== true) {
    throw new AgentError(SqlErrorCode.pathUnusable, `There is no folder ${targetPath} on this device.`);
  }
  await run({ instance, sql: freeNameSql(targetDatabase), answer: Answer }, limits);
  const compact = restoreId.replaceAll('-', '');
  let applied = 0;
  let mayBeOurs = false;

  return {
    folder,
    fileNameOf: () => MSSQL_FILE,
    async apply(part: ChainPart, content: AsyncIterable<Uint8Array>) {
      const name = `muster-restore-${compact}-${applied}.bak`;
      const local = path.join(folder, name);
      const isLast = applied === parts.length - 1;
      try {
        const bytes = await write(local, content);
        const sql = restoreSql({
          database: targetDatabase,
          file: `${targetPath.replace(/[\\/]+$/, '')}\\${name}`,
          backupType: part.backupType,
          noRecovery: !isLast || noRecovery,
          stopAt: isLast && pointInTime !== undefined ? localTime(new Date(pointInTime)) : undefined,
          filePrefix: `muster_${compact}`,
        });
        mayBeOurs = true;
        await run({ instance, sql, answer: Answer }, limits).catch((error: unknown) => {
          const isTaken = error instanceof AgentError && error.code === SqlErrorCode.databaseExists;
          if (isTaken && applied === 0) mayBeOurs = false;
          throw error;
        });
        applied += 1;
        return bytes;
      } finally {
        await rm(local, { force: true });
      }
    },
    finish: async () => ({
      isRecovered: !noRecovery,
      recoveredTo: pointInTime ?? null,
      position: parts.at(-1)?.to ?? null,
    }),
    async undo() {
      // Before the full backup is being restored, nothing with this name is ours.
      if (!mayBeOurs) return;
      const script = { instance, sql: dropRestoringSql(targetDatabase), answer: Answer };
      await run(script, { ...limits, signal: clock.timeoutSignal(60_000) }).catch((error: unknown) => {
        order.warn(`The database that was restored in part could not be removed: ${String(error)}`);
      });
    },
  };
}

/** The file is readable for the service of SQL Server by the rights of its folder. */
async function write(file: string, content: AsyncIterable<Uint8Array>): Promise<number> {
  const handle = await open(file, 'wx');
  let at = 0;
  try {
    for await (const bytes of content) {
      for (let done = 0; done < bytes.byteLength; ) {
        done += (await handle.write(bytes, done, bytes.byteLength - done)).bytesWritten;
      }
      at += bytes.byteLength;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  return at;
}

/** SQL Server has the clock and the time zone of its machine, which is this one. */
export function localTime(at: Date): string {
  const two = (value: number, digits = 2) => String(value).padStart(digits, '0');
  const day = [two(at.getFullYear(), 4), two(at.getMonth() + 1), two(at.getDate())].join('-');
  const time = [two(at.getHours()), two(at.getMinutes()), two(at.getSeconds())].join(':');
  return `${day}T${time}.${two(at.getMilliseconds(), 3)}`;
}
