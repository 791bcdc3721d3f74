import type { DatabaseInstance } from '../../../../protocol/index.ts';
import { describeError } from '../../../core/agent-error.ts';
import { databaseError } from '../database-error.ts';
import type { BackupOrder, DatabasePort, OpenBackup } from '../engine-port.ts';
import { fullBackup } from './full-backup.ts';
import { logBackup } from './log-backup.ts';
import { openRestore } from './restore.ts';
import { findTool, type PostgresServer, postgresServers, problemsOf, stateOf } from './server.ts';

const SHOWN_MAX = 1000;
const TOOLS = ['psql', 'pg_basebackup', 'pg_receivewal'];

/** PostgreSQL 13 and later, on Linux, as the system user that its server runs as (docs/decisions/backup-databases.md). */
export const postgresql: DatabasePort = {
  engine: 'postgresql',
  async discover(signal) {
    const servers = await postgresServers();
    return Promise.all(servers.map((server) => describe(server, signal)));
  },
  async openBackup(order) {
    const server = await chosen(order.instance);
    const state = await stateOf(server, order.signal);
    const [problem] = problemsOf(state);
    if (problem !== undefined) {
      throw databaseError('DATABASE_UNSUPPORTED', `The server cannot be backed up. ${problem.message}`);
    }
    return backupOf(server, state, order);
  },
  openRestore,
};

function backupOf(
  server: PostgresServer,
  state: Awaited<ReturnType<typeof stateOf>>,
  order: BackupOrder,
): Promise<OpenBackup> {
  if (order.backupType === 'full') return fullBackup(server, state, order);
  if (order.backupType === 'log') return logBackup(server, state, order);
  throw databaseError('DATABASE_UNSUPPORTED', 'PostgreSQL has no differential backups here.');
}

async function chosen(instance: string | undefined): Promise<PostgresServer> {
  const servers = await postgresServers();
  const [server, another] = servers.filter((each) => instance === undefined || each.instance === instance);
  if (server === undefined) {
    throw databaseError(
      'DATABASE_NOT_FOUND',
      instance === undefined
        ? 'No server of PostgreSQL runs on this device.'
        : `No server of PostgreSQL listens at ${instance} on this device.`,
    );
  }
  if (another !== undefined) {
    throw databaseError(
      'DATABASE_NOT_FOUND',
      'Several servers of PostgreSQL run on this device: the configuration has to name one.',
    );
  }
  return server;
}

async function describe(server: PostgresServer, signal: AbortSignal): Promise<DatabaseInstance> {
  const { instance, port, dataFolder, major, programFolder } = server;
  const known = { engine: 'postgresql', instance, port, dataFolder } as const;
  const problems: DatabaseInstance['problems'] = [];
  const note = (error: unknown) => {
    signal.throwIfAborted();
    const { code, message } = describeError(error);
    problems.push({ code: code.slice(0, 64), message: message.slice(0, 500) });
  };
  for (const tool of TOOLS) await findTool(tool, major, programFolder).catch(note);
  try {
    const state = await stateOf(server, signal);
    const databases = state.databases.slice(0, SHOWN_MAX);
    return { ...known, version: state.version, databases, problems: [...problems, ...problemsOf(state)] };
  } catch (error) {
    note(error);
    return { ...known, version: String(major), databases: [], problems };
  }
}
