import { readTar, type ReadTarEntry, shownName } from '../../../engine/index.ts';
import { type DatabaseInstance, shortened } from '../../../protocol/index.ts';
import { describeError } from '../../core/agent-error.ts';
import { readOutput } from '../../os/child-process.ts';
import type { EmptyTarget } from './empty-target.ts';
import {
  type BackupOrder,
  type DatabasePort,
  type OpenBackup,
  type ChainPart,
  type OpenRestore,
  type RestoreOrder,
  listedDatabases,
  type Recovered,
} from './engine-port.ts';
import {
  fullBackup,
  BASE,
  beginOfSegment,
  parsePosition,
  segmentName,
  timelineOf,
  logBackup,
  LOG,
} from './postgresql-backup.ts';
import { findTool, type PostgresServer, postgresServers, problemsOf, stateOf } from './postgresql-server.ts';
import {
  databaseError,
  toolMissing,
  lastLine,
  runProgram,
  type RunningProgram,
  startProgram,
  userOf,
} from './program.ts';
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clock } from '../../../clock.ts';

/** Throws, before anything is written, if the logs do not join or the programs of the release are missing. */
async function openRestore(order: RestoreOrder): Promise<OpenRestore> {
  const major = Number.parseInt(order.version, 10);
  const timeline = timelineOf(order.branch);
  if (!Number.isInteger(major) || !Number.isInteger(timeline)) {
    throw databaseError('BACKUP_DAMAGED', 'The backup does not state its release and timeline.');
  }
  assertJoined(order.parts);
  // Without recovery, the customer's own server does it.
  const programs = order.noRecovery
    ? undefined
    : { postgres: await findServer(major, order.signal), psql: await findTool('psql', major) };
  return {
    fileNameOf: ({ backupType }) => (backupType === 'full' ? BASE : LOG),
    write: (part, content, target) =>
      part.backupType === 'full' ? unpack(content, target) : placeLog(part, content, { target, timeline }),
    async recover(target) {
      if (programs !== undefined) return recover(target, programs, order);
      return { isRecovered: false, recoveredTo: null, position: order.parts.at(-1)?.to ?? null };
    },
    beforeHandOver: (target) => writeSettings(target, order),
  };
}

/** A server reads only the files of its own release. */
async function findServer(major: number, signal: AbortSignal): Promise<string> {
  const file = await findTool('postgres', major);
  const version = await readOutput(file, ['--version'], { signal });
  if (Number.parseInt(version.replace(/^[^0-9]*/, ''), 10) !== major) {
    throw toolMissing('postgres', `PostgreSQL ${major}`);
  }
  return file;
}

function assertJoined(parts: readonly ChainPart[]): void {
  let reached: bigint | undefined;
  for (const [index, { backupType, from, to }] of parts.entries()) {
    const isRight = index === 0 ? backupType === 'full' : backupType === 'log';
    if (!isRight || from === null || to === null) throw gap(index);
    if (reached !== undefined && parsePosition(from) > reached) throw gap(index);
    reached = parsePosition(to);
  }
}

const gap = (index: number) =>
  databaseError(
    'CHAIN_BROKEN',
    `The logs do not join: something is missing before snapshot ${index + 1} of the chain.`,
  );

const NEEDED = ['PG_VERSION', 'backup_label', 'global/pg_control'];

async function unpack(content: AsyncIterable<Uint8Array>, target: EmptyTarget): Promise<void> {
  for await (const { type, names, content: file } of readBaseBackup(content)) {
    await (type === 'directory' ? target.makeFolder(names) : writeArchiveFile(target, names, file));
  }
  for (const file of NEEDED) {
    if (!(await target.has(file.split('/')))) {
      throw databaseError('BACKUP_DAMAGED', `The backup has no ${file}.`);
    }
  }
}

const NAME_MAX = 255;
const damaged = (why: string) => databaseError('BACKUP_DAMAGED', `The backup cannot be unpacked: ${why}`);

/** The entries of a base backup with the parts of their names. Every entry lies below the folder. */
export async function* readBaseBackup(
  content: AsyncIterable<Uint8Array>,
): AsyncGenerator<ReadTarEntry & { names: string[] }, void> {
  for await (const entry of readTar(content, damaged)) {
    const names = entry.name.replace(/^\.\//, '').replace(/\/$/, '').split('/');
    const isBad = (name: string) => name === '' || name === '.' || name === '..' || name.length > NAME_MAX;
    if (names.some(isBad)) throw damaged(`${shownName(entry.name)} is no name below the folder.`);
    yield { ...entry, names };
  }
}

async function writeArchiveFile(
  target: EmptyTarget,
  names: readonly string[],
  content: AsyncIterable<Uint8Array>,
): Promise<number> {
  const file = await target.newFile(names);
  let size = 0;
  try {
    for await (const bytes of content) {
      await file.write(bytes);
      size += bytes.byteLength;
    }
  } finally {
    await file.close();
  }
  target.bytes += size;
  return size;
}

const SEGMENT = /^[0-9A-F]{24}$/;

/** Puts the WAL segments of a log backup beside those of the full backup, whose size is the segment size. */
async function placeLog(
  { from, to }: ChainPart,
  content: AsyncIterable<Uint8Array>,
  { target, timeline }: { target: EmptyTarget; timeline: number },
): Promise<void> {
  const known = (await target.namesIn(['pg_wal'])).find((name) => SEGMENT.test(name));
  const segmentBytes = known === undefined ? 0 : await target.sizeOf(['pg_wal', known]);
  const begin = parsePosition(from ?? '0/0');
  const end = parsePosition(to ?? '0/0');
  // The segment size is a power of two from 1 MiB to 1 GiB.
  if (
    segmentBytes < 1024 ** 2 ||
    segmentBytes > 1024 ** 3 ||
    beginOfSegment(begin, BigInt(segmentBytes)) !== begin
  ) {
    throw databaseError('BACKUP_DAMAGED', 'The backup does not say how long the segments of its log are.');
  }
  let next = begin;
  for await (const segment of inPieces(content, segmentBytes)) {
    if (next >= end) throw databaseError('BACKUP_DAMAGED', 'A log is longer than it should be.');
    await writeArchiveFile(target, ['pg_wal', segmentName(timeline, next, BigInt(segmentBytes))], segment());
    next += BigInt(segmentBytes);
  }
  if (next !== end) throw databaseError('BACKUP_DAMAGED', 'A log is shorter than it should be.');
}

/** A stream in pieces of one size. Throws if the last one is shorter. */
async function* inPieces(
  content: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<() => AsyncGenerator<Uint8Array, void>, void> {
  const source = content[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  const fill = async (): Promise<boolean> => {
    while (held.byteLength === 0) {
      const next = await source.next();
      if (next.done === true) return false;
      held = next.value;
    }
    return true;
  };
  while (await fill()) {
    yield async function* piece() {
      for (let left = size; left > 0; ) {
        if (!(await fill())) throw databaseError('BACKUP_DAMAGED', 'A log ends within a segment.');
        const part = held.subarray(0, left);
        held = held.subarray(part.byteLength);
        left -= part.byteLength;
        yield part;
      }
    };
  }
}

/** Settings that start the recovery when a server starts in the folder, and the point at which it stops. */
async function writeSettings(target: EmptyTarget, order: RestoreOrder): Promise<void> {
  await (await target.newFile(['recovery.signal'])).close();
  if (!order.noRecovery) return;
  const lines = Object.entries(settingsFor(order.pointInTime)).map(([name, value]) => `${name} = '${value}'`);
  const file = await target.appendTo(['postgresql.auto.conf']);
  try {
    await file.appendFile(`\n# From a restore of Muster.\n${lines.join('\n')}\n`);
  } finally {
    await file.close();
  }
}

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
    problems.push({ code: code.slice(0, 64), message: shortened(message, 500) });
  };
  for (const tool of TOOLS) await findTool(tool, major, programFolder).catch(note);
  try {
    const state = await stateOf(server, signal);
    const databases = listedDatabases(state.databases);
    return { ...known, version: state.version, ...databases, problems: [...problems, ...problemsOf(state)] };
  } catch (error) {
    note(error);
    return { ...known, version: String(major), databases: [], problems };
  }
}

/**
 * Starts a server of our own, which recovers the folder and shuts down. It accepts no other connections and runs none
 * of the old server's jobs.
 */

const PORT = 5432;
const POLL_MS = 200;

/** All WAL is in the folder, so nothing is fetched. */
const settingsFor = (pointInTime: string | undefined): Record<string, string> => ({
  restore_command: 'false',
  recovery_target_timeline: 'current',
  recovery_target_action: 'promote',
  ...(pointInTime === undefined ? {} : { recovery_target_time: inPostgres(pointInTime) }),
});

/** PostgreSQL does not accept the `Z` of ISO 8601. */
const inPostgres = (instant: string) => new Date(instant).toISOString().replace('T', ' ').replace('Z', '+00');

/** The folder may contain settings of the old server, which would connect it to other servers or archive its WAL. */
const QUIET = {
  listen_addresses: '',
  port: String(PORT),
  archive_mode: 'off',
  hot_standby: 'off',
  primary_conninfo: '',
  primary_slot_name: '',
  recovery_target: '',
  recovery_target_xid: '',
  recovery_target_name: '',
  recovery_target_lsn: '',
  shared_preload_libraries: '',
  session_preload_libraries: '',
  local_preload_libraries: '',
  max_logical_replication_workers: '0',
  max_wal_senders: '0',
  max_connections: '20',
  max_prepared_transactions: '1000',
  autovacuum: 'off',
  ssl: 'off',
  logging_collector: 'off',
  log_destination: 'stderr',
  lc_messages: 'C',
  external_pid_file: '',
};

async function recover(
  target: EmptyTarget,
  programs: { postgres: string; psql: string },
  { pointInTime, signal, record }: RestoreOrder,
): Promise<Recovered> {
  const { user } = target;
  const account = await userOf(user.uid);
  if (account === undefined) throw databaseError('DATABASE_DENIED', `The system has no user ${user.uid}.`);
  const own = await mkdtemp(path.join(tmpdir(), 'muster-recovery-'));
  try {
    await chown(own, user.uid, user.gid);
    const access = path.join(own, 'pg_hba.conf');
    await writeFile(access, 'local all all peer\n', { mode: 0o644 });
    for (const name of ['postgresql.conf', 'pg_ident.conf']) {
      await writeFile(path.join(own, name), '', { mode: 0o644 });
    }
    const settings = {
      ...QUIET,
      ...settingsFor(pointInTime),
      config_file: path.join(own, 'postgresql.conf'),
      hba_file: access,
      ident_file: path.join(own, 'pg_ident.conf'),
      unix_socket_directories: own,
    };
    const server = startProgram({
      file: programs.postgres,
      args: [
        '-D',
        target.path,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      user,
      env: { HOME: own },
      cwd: own,
      signal,
    });
    server.stdout.resume();
    const forget = server.pid === undefined ? async () => {} : await record(server.pid);
    const ask = (statement: string) =>
      runProgram({
        file: programs.psql,
        args: [
          '--no-password',
          '--no-psqlrc',
          '--quiet',
          '--no-align',
          '--tuples-only',
          '--field-separator',
          ' ',
          '--host',
          own,
          '--port',
          String(PORT),
          '--username',
          account.name,
          '--dbname',
          'postgres',
          '--command',
          statement,
        ],
        user,
        env: { HOME: own },
        signal,
      });
    try {
      return await untilRecovered(server, ask, pointInTime);
    } finally {
      server.stop('SIGINT');
      await server.ended;
      await forget();
    }
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

const REACHED = `select pg_is_in_recovery(), pg_last_wal_replay_lsn(), coalesce(to_char(
  pg_last_xact_replay_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '-')`;

async function untilRecovered(
  server: RunningProgram,
  ask: (statement: string) => Promise<{ code: number | null; stdout: string }>,
  pointInTime: string | undefined,
): Promise<Recovered> {
  let hasEnded = false;
  void server.ended.then(() => (hasEnded = true));
  for (;;) {
    const { code, stdout } = await ask(REACHED);
    const [inRecovery, position, at] = stdout.trim().split(' ');
    if (code === 0 && inRecovery === 'f') {
      await stop(server, ask);
      return { isRecovered: true, recoveredTo: at === '-' ? null : (at ?? null), position: position ?? null };
    }
    if (hasEnded) throw failure(server.messages(), pointInTime);
    await clock.sleep(POLL_MS);
  }
}

/** A clean shutdown, so that the customer's server has nothing to recover. */
async function stop(
  server: RunningProgram,
  ask: (statement: string) => Promise<{ code: number | null }>,
): Promise<void> {
  await ask('checkpoint');
  server.stop('SIGINT');
  const { code, stderr } = await server.ended;
  if (code !== 0) {
    throw databaseError('DATABASE_FAILED', `The recovered server could not be stopped: ${lastLine(stderr)}`);
  }
}

function failure(messages: string, pointInTime: string | undefined) {
  if (messages.includes('recovery ended before configured recovery target was reached')) {
    return databaseError('POINT_NOT_REACHED', `The log ends before ${pointInTime ?? 'the requested time'}.`);
  }
  const fatal = messages.split('\n').findLast((line) => /FATAL|PANIC/.test(line)) ?? lastLine(messages);
  return databaseError('DATABASE_FAILED', `The database could not be recovered: ${shortened(fatal, 400)}`);
}
