import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type DatabaseDetails, type DatabaseInstance, shortened } from '../../../protocol/index.ts';
import { describeError } from '../../core/agent-error.ts';
import { databaseError, startProgram, lastLine, runProgram } from './program.ts';
import {
  type BackupOrder,
  type DatabasePort,
  type OpenBackup,
  listedDatabases,
  type ChainPart,
  type OpenRestore,
  type Recovered,
  type RestoreOrder,
} from './engine-port.ts';
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
} from './mariadb-server.ts';
import { once } from 'node:events';
import type { EmptyTarget } from './empty-target.ts';

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
          ...listedDatabases(state.databases.map(({ name }) => shortened(name, 255))),
          backupType: since === undefined ? 'full' : 'differential',
          version: shortened(state.version, 255),
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

/** The position at which a differential backup begins; `undefined`: a full backup. */
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
      'The full backup belongs to another server. The next backup is a full one.',
    );
  }
  return position;
}

/** mariadb-backup writes the positions into a file, independent of the language of its messages. */
async function positionsIn(folder: string): Promise<{ from: string; to: string }> {
  const text = await readFile(path.join(folder, 'xtrabackup_checkpoints'), 'utf8').catch(() => '');
  const of = (name: string) => new RegExp(String.raw`^${name} = (\d{1,25})$`, 'm').exec(text)?.[1];
  const [from, to] = [of('from_lsn'), of('to_lsn')];
  if (from === undefined || to === undefined) {
    throw databaseError('DATABASE_FAILED', 'mariadb-backup has not reported the positions of the backup.');
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
    problems.push({ code: code.slice(0, 64), message: shortened(message, 500) });
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
      ...listedDatabases(databases),
      problems: [...problems, ...problemsOf(state)],
    };
  } catch (error) {
    note(error);
    return { engine: 'mariadb', instance, dataFolder, version: '', port: null, databases: [], problems };
  }
}

/**
 * Passes a stream of mariadb-backup on, and stops before a file whose name leads out of the folder: mbstream itself
 * would follow it.
 */

const MAGIC = Buffer.from('XBSTCK01');
const NAME_MAX = 4096;
/** The flag of a chunk that marks the end of a file. */
const END = 'E'.charCodeAt(0);

export async function* checkedNames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = new Parts(source);
  for (;;) {
    // Magic, flags, type, length of the name.
    const head = await reader.take(14);
    if (head === undefined) return;
    const length = head.readUInt32LE(10);
    if (!head.subarray(0, 8).equals(MAGIC) || length === 0 || length > NAME_MAX) {
      throw damaged('it is no stream of mariadb-backup');
    }
    const name = await reader.must(length);
    const names = name.toString('utf8').replace(/^\.\//, '').split('/');
    if (names.some((each) => each === '' || each === '..' || each === '.') || name.includes(0)) {
      throw damaged(`${JSON.stringify(shortened(name.toString('utf8'), 200))} is no name below the folder`);
    }
    yield head;
    yield name;
    if (head[9] === END) continue;
    // Length of the content, its offset in the file, and its checksum.
    const body = await reader.must(20);
    yield body;
    let left = body.readBigUInt64LE(0);
    while (left > 0n) {
      const part = await reader.some(left);
      left -= BigInt(part.length);
      yield part;
    }
  }
}

const damaged = (why: string) => databaseError('BACKUP_DAMAGED', `The backup cannot be unpacked: ${why}.`);

class Parts {
  readonly #source: AsyncIterator<Uint8Array>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async #fill(): Promise<boolean> {
    while (this.#held.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) return false;
      this.#held = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    }
    return true;
  }

  /** `undefined` at the end of the stream. */
  async take(count: number): Promise<Buffer | undefined> {
    return (await this.#fill()) ? this.must(count) : undefined;
  }

  async must(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = count; left > 0; ) {
      const part = await this.some(BigInt(left));
      left -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async some(max: bigint): Promise<Buffer> {
    if (!(await this.#fill())) throw damaged('it ends too early');
    const part = this.#held.subarray(0, max > BigInt(this.#held.length) ? this.#held.length : Number(max));
    this.#held = this.#held.subarray(part.length);
    return part;
  }
}

/** In the target until it is applied. */
const DIFFERENTIAL = 'muster-differential';

/** Everything runs as the database user, so a forged backup can harm no other user. */
async function openRestore(order: RestoreOrder): Promise<OpenRestore> {
  const { parts, signal } = order;
  if (order.pointInTime !== undefined || order.noRecovery) {
    throw databaseError(
      'DATABASE_UNSUPPORTED',
      'Backups of MariaDB are restored as they are, and made ready in any case.',
    );
  }
  const [full, differential, ...more] = parts;
  const isWhole =
    full?.backupType === 'full' &&
    more.length === 0 &&
    (differential === undefined ||
      (differential.backupType === 'differential' && differential.from === full.to));
  if (!isWhole) throw databaseError('CHAIN_BROKEN', 'The backups do not belong together.');
  const stream = await findTool(STREAM_TOOL);
  const tool = await findTool(BACKUP_TOOL);
  return {
    isWrittenByUser: true,
    fileNameOf: () => STREAM,
    async write(part, content, target) {
      if (part.backupType === 'differential') await target.makeFolderOfUser(DIFFERENTIAL);
      await unpack(content, { stream, signal, target, folder: folderOf(part, target) });
    },
    recover: (target) => prepare(tool, target, order),
  };
}

const folderOf = ({ backupType }: ChainPart, target: EmptyTarget) =>
  backupType === 'full' ? target.path : path.join(target.path, DIFFERENTIAL);

interface Unpacking {
  stream: string;
  signal: AbortSignal;
  target: EmptyTarget;
  folder: string;
}

async function unpack(
  content: AsyncIterable<Uint8Array>,
  { stream, signal, target, folder }: Unpacking,
): Promise<void> {
  const program = startProgram({
    file: stream,
    args: ['-x'],
    user: target.user,
    cwd: folder,
    hasInput: true,
    signal,
  });
  program.stdout.resume();
  const over = new AbortController();
  void program.ended.then(() => over.abort());
  try {
    for await (const bytes of checkedNames(content)) {
      if (over.signal.aborted) break;
      target.bytes += bytes.byteLength;
      if (!program.stdin.write(bytes)) {
        await once(program.stdin, 'drain', { signal: over.signal }).catch(() => {});
      }
    }
    program.stdin.end();
  } catch (error) {
    program.stop();
    await program.ended;
    throw error;
  }
  const { code, stderr } = await program.ended;
  signal.throwIfAborted();
  if (code !== 0) {
    throw databaseError('BACKUP_DAMAGED', `The backup could not be unpacked: ${lastLine(stderr)}`);
  }
  target.files += 1;
}

async function prepare(
  tool: string,
  target: EmptyTarget,
  { parts, signal }: RestoreOrder,
): Promise<Recovered> {
  const run = async (...more: string[]) => {
    const { code, stderr } = await runProgram({
      file: tool,
      args: ['--no-defaults', '--prepare', '--target-dir=.', ...more],
      user: target.user,
      cwd: target.path,
      signal,
    });
    if (code === 0 && COMPLETED.test(stderr)) return;
    throw databaseError('DATABASE_FAILED', `The backup could not be made ready: ${lastLine(stderr)}`);
  };
  await run();
  if (parts.length > 1) {
    await run(`--incremental-dir=./${DIFFERENTIAL}`);
    await target.removeFolderOfUser(DIFFERENTIAL);
  }
  return { isRecovered: true, recoveredTo: null, position: parts.at(-1)?.to ?? null };
}
