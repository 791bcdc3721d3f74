import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { DatabaseDetails, DatabaseInstance } from '../../../../protocol/index.ts';
import { describeError } from '../../../core/agent-error.ts';
import { databaseError } from '../database-error.ts';
import type { BackupOrder, DatabasePort, OpenBackup } from '../engine-port.ts';
import { startProgram } from '../program.ts';
import { openRestore } from './restore.ts';
import {
  BACKUP_TOOL,
  COMPLETED,
  failureOf,
  findTool,
  type MariadbServer,
  mariadbServers,
  ownUser,
  problemsOf,
  stateOf,
  STREAM,
  STREAM_TOOL,
} from './server.ts';

/** MariaDB 10.5 and later, on Linux, as root by its socket (docs/decisions/backup-databases.md). */
export const mariadb: DatabasePort = {
  engine: 'mariadb',
  async discover(signal) {
    const servers = await mariadbServers();
    return Promise.all(servers.map((server) => describe(server, signal)));
  },
  async openBackup(order) {
    const server = await chosen(order.instance);
    const state = await stateOf(server, order.signal);
    const [problem] = problemsOf(state);
    if (problem !== undefined) {
      throw databaseError('DATABASE_UNSUPPORTED', `The server cannot be backed up. ${problem.message}`);
    }
    const file = await findTool(BACKUP_TOOL, server.programFolder);
    const since = startOf(order, server.instance, state.uid);
    const program = startProgram({
      file,
      args: [
        '--no-defaults',
        '--backup',
        '--stream=xbstream',
        '--user=root',
        `--socket=${server.instance}`,
        `--extra-lsndir=${order.spool}`,
        ...(since === undefined ? [] : [`--incremental-lsn=${since}`]),
      ],
      user: ownUser(),
      cwd: order.spool,
      signal: order.signal,
    });
    return {
      fileName: STREAM,
      content: program.stdout,
      expectedBytes:
        since === undefined ? state.databases.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) : null,
      async finish(): Promise<DatabaseDetails> {
        const { code, stderr } = await program.ended;
        if (code !== 0 || !COMPLETED.test(stderr)) throw failureOf(stderr, 'mariadb-backup has failed');
        const { from, to } = await positionsIn(order.spool);
        if (since !== undefined && from !== since) {
          throw databaseError(
            'CHAIN_BROKEN',
            'The backup does not begin where the full one ends. The next backup is a full one.',
          );
        }
        return {
          kind: 'database',
          engine: 'mariadb',
          instance: server.instance,
          databases: state.databases.map(({ name }) => name.slice(0, 255)),
          backupType: since === undefined ? 'full' : 'differential',
          version: state.version.slice(0, 255),
          from,
          to,
          branch: state.uid,
          basedOn: since ?? null,
          recoverableFrom: null,
          recoverableTo: state.now,
        };
      },
      async close() {
        program.stop();
        await program.ended;
      },
    } satisfies OpenBackup;
  },
  openRestore,
};

/** The position that a differential backup begins at; `undefined`: a full one. */
function startOf(
  { backupType, full }: BackupOrder,
  instance: string,
  uid: string | null,
): string | undefined {
  if (backupType === 'full') return undefined;
  if (backupType === 'log') throw databaseError('DATABASE_UNSUPPORTED', 'MariaDB has no log backups here.');
  const position = full?.to;
  if (position == null || full?.instance !== instance || full.branch !== uid) {
    throw databaseError(
      'CHAIN_BROKEN',
      'The full backup is of another server. The next backup is a full one.',
    );
  }
  return position;
}

/** mariadb-backup writes them into a file of its own, whatever language it speaks. */
async function positionsIn(folder: string): Promise<{ from: string; to: string }> {
  const text = await readFile(path.join(folder, 'xtrabackup_checkpoints'), 'utf8').catch(() => '');
  const of = (name: string) => new RegExp(String.raw`^${name} = (\d{1,25})$`, 'm').exec(text)?.[1];
  const [from, to] = [of('from_lsn'), of('to_lsn')];
  if (from === undefined || to === undefined) {
    throw databaseError('DATABASE_FAILED', 'mariadb-backup has not said which positions the backup has.');
  }
  return { from, to };
}

async function chosen(instance: string | undefined): Promise<MariadbServer> {
  const servers = await mariadbServers();
  const [server, another] = servers.filter((each) => instance === undefined || each.instance === instance);
  if (server === undefined) {
    throw databaseError(
      'DATABASE_NOT_FOUND',
      instance === undefined
        ? 'No server of MariaDB runs on this device.'
        : `No server of MariaDB listens at ${instance} on this device.`,
    );
  }
  if (another !== undefined) {
    throw databaseError(
      'DATABASE_NOT_FOUND',
      'Several servers of MariaDB run on this device: the configuration has to name one.',
    );
  }
  return server;
}

async function describe(server: MariadbServer, signal: AbortSignal): Promise<DatabaseInstance> {
  const { instance, dataFolder, programFolder } = server;
  const problems: DatabaseInstance['problems'] = [];
  const note = (error: unknown) => {
    signal.throwIfAborted();
    const { code, message } = describeError(error);
    problems.push({ code: code.slice(0, 64), message: message.slice(0, 500) });
  };
  for (const tool of [BACKUP_TOOL, STREAM_TOOL]) await findTool(tool, programFolder).catch(note);
  try {
    const state = await stateOf(server, signal);
    const { version, port, databases } = state;
    return {
      engine: 'mariadb',
      instance,
      dataFolder,
      version,
      port,
      databases,
      problems: [...problems, ...problemsOf(state)],
    };
  } catch (error) {
    note(error);
    return { engine: 'mariadb', instance, dataFolder, version: '', port: null, databases: [], problems };
  }
}
