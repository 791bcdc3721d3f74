import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DATABASE_INSTANCES_MAX } from '../../../protocol/index.ts';
import { Reading } from '../../core/reading.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { RunSql } from '../../sql-server/sqlcmd.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import type { DatabasePort } from './engine-port.ts';
import { KnownProcesses } from './known-processes.ts';
import { mariadb } from './mariadb/mariadb.ts';
import { mssql } from './mssql/mssql.ts';
import { postgresql } from './postgresql/postgresql.ts';
import { runDatabaseBackup } from './run-database-backup.ts';
import { runDatabaseRestore } from './run-database-restore.ts';

/** Those of this system. */
export const databasePorts = (run: RunSql): readonly DatabasePort[] => {
  if (process.platform === 'linux') return [postgresql, mariadb];
  return process.platform === 'win32' ? [mssql({ run })] : [];
};

export interface DatabaseHandlers {
  live: LiveHandlers;
  durable: DurableHandlers;
}

/** Removes what an earlier agent has left, and returns the commands of databases; none where the system has no engine. */
export async function openDatabases(
  parts: BackupParts,
  ports: readonly DatabasePort[],
): Promise<DatabaseHandlers> {
  if (ports.length === 0) return { live: {}, durable: {} };
  const processes = new KnownProcesses(parts.folder);
  await processes.clear();
  await rm(path.join(parts.folder, 'spool'), { recursive: true, force: true });
  const discoverers = ports.flatMap(({ engine, discover }) =>
    discover === undefined ? [] : [{ engine, discover }],
  );
  return {
    live:
      discoverers.length === 0
        ? {}
        : {
            'backup.databases': async (_payload, { signal }) => {
              const reading = new Reading();
              const found = await Promise.all(
                discoverers.map(({ engine, discover }) => reading.from(engine, () => discover(signal))),
              );
              signal.throwIfAborted();
              const { failed } = reading;
              return {
                instances: found.flatMap((instances) => instances ?? []).slice(0, DATABASE_INSTANCES_MAX),
                ...(failed.length === 0 ? {} : { failed }),
              };
            },
          },
    durable: {
      'backup.database': runDatabaseBackup(parts, ports),
      'backup.database-restore': runDatabaseRestore(parts, ports, processes),
    },
  };
}
