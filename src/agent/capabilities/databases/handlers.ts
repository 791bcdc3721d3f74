import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DATABASE_INSTANCES_MAX } from '../../../protocol/index.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import type { DatabasePort } from './engine-port.ts';
import { KnownProcesses } from './known-processes.ts';
import { mariadb } from './mariadb/mariadb.ts';
import { postgresql } from './postgresql/postgresql.ts';
import { runDatabaseBackup } from './run-database-backup.ts';
import { runDatabaseRestore } from './run-database-restore.ts';

const PORTS: Partial<Record<NodeJS.Platform, readonly DatabasePort[]>> = { linux: [postgresql, mariadb] };

export interface DatabaseHandlers {
  live: LiveHandlers;
  durable: DurableHandlers;
}

/** Removes what an earlier agent has left, and returns the commands of databases; none where the system has no engine. */
export async function openDatabases(
  parts: BackupParts,
  ports: readonly DatabasePort[] = PORTS[process.platform] ?? [],
): Promise<DatabaseHandlers> {
  if (ports.length === 0) return { live: {}, durable: {} };
  const processes = new KnownProcesses(parts.folder);
  await processes.clear();
  await rm(path.join(parts.folder, 'spool'), { recursive: true, force: true });
  return {
    live: {
      'backup.databases': async (_payload, { signal }) => {
        const found = await Promise.all(ports.map((port) => port.discover(signal)));
        return { instances: found.flat().slice(0, DATABASE_INSTANCES_MAX) };
      },
    },
    durable: {
      'backup.database': runDatabaseBackup(parts, ports),
      'backup.database-restore': runDatabaseRestore(parts, ports, processes),
    },
  };
}
