import { clock } from '../../../clock.ts';
import { type DatabaseDetails, shortened } from '../../../protocol/index.ts';
import { databaseError, startProgram, GIVEN_FOLDER, runProgram } from './program.ts';
import { type BackupOrder, type OpenBackup, listedDatabases } from './engine-port.ts';
import {
  ask,
  branchOf,
  connectArguments,
  environmentOf,
  failureOf,
  findTool,
  type PostgresServer,
  type PostgresState,
  holdLogs,
  recycled,
  releaseLogs,
} from './postgresql-server.ts';
import { constants } from 'node:fs';
import { chown, chmod, open, stat, statfs } from 'node:fs/promises';
import path from 'node:path';

/** WAL positions of PostgreSQL, and the segment files that contain them. */

export function parsePosition(position: string): bigint {
  const [high = '0', low = '0'] = position.split('/');
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}

export function writePosition(position: bigint): string {
  const hex = (value: bigint) => value.toString(16).toUpperCase();
  return `${hex(position >> 32n)}/${hex(position & 0xffffffffn)}`;
}

/** The name of the segment file that begins at a position. */
export function segmentName(timeline: number, begin: bigint, segmentBytes: bigint): string {
  const number = begin / segmentBytes;
  const perId = 0x100000000n / segmentBytes;
  return [BigInt(timeline), number / perId, number % perId]
    .map((part) => part.toString(16).toUpperCase().padStart(8, '0'))
    .join('');
}

export const beginOfSegment = (position: bigint, segmentBytes: bigint) =>
  position - (position % segmentBytes);
const endOfSegment = (position: bigint, segmentBytes: bigint) =>
  beginOfSegment(position + segmentBytes - 1n, segmentBytes);

/** The timeline of a branch as `branchOf` writes it. */
export const timelineOf = (branch: string | null): number => Number(branch?.split('/')[1] ?? 'NaN');

/** The name of the only file of a full backup. */
export const BASE = 'base.tar';

const OBSERVE_MS = 10_000;

interface Observation {
  at: string;
  position: bigint;
}

/** A time and a position: what was committed before the time lies before the position. */
const OBSERVE = `select concat_ws(' ', to_char(date_trunc('milliseconds', clock_timestamp()) at time zone 'UTC',
  'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), pg_current_wal_insert_lsn()::text)`;

/** The whole server as one archive, including the WAL that it needs, so it can be restored alone. */
export async function fullBackup(
  server: PostgresServer,
  state: PostgresState,
  { signal, chainId, warn }: BackupOrder,
): Promise<OpenBackup> {
  const file = await findTool('pg_basebackup', server.major, server.programFolder);
  const logsHeldBy = await holdLogs(server, state, { chainId, signal, warn });
  const observe = async (): Promise<Observation> => {
    const [at = '', position = ''] = (await ask(server, [OBSERVE], signal)).join('').split(' ');
    return { at, position: parsePosition(position) };
  };
  const seen = [await observe()];
  const program = startProgram({
    file,
    args: [
      ...connectArguments(server),
      '--pgdata',
      '-',
      '--format',
      'tar',
      '--wal-method',
      'fetch',
      '--checkpoint',
      'fast',
      '--verbose',
    ],
    user: server.user,
    env: environmentOf(server),
    signal,
  });
  const over = new AbortController();
  const observing = (async () => {
    for (;;) {
      await clock.sleep(OBSERVE_MS, { signal: over.signal });
      seen.push(await observe());
    }
    // Ends with the backup, or when the server stops answering, which the backup notices itself.
  })().catch(() => {});
  return {
    fileName: BASE,
    content: program.stdout,
    expectedBytes: state.totalBytes,
    async finish(): Promise<DatabaseDetails> {
      const { code, stderr } = await program.ended;
      if (code !== 0) throw failureOf(stderr, 'pg_basebackup has failed');
      const [, from, timeline] = /start point: (\S+) on timeline (\d+)/.exec(stderr) ?? [];
      const [, to] = /end point: (\S+)/.exec(stderr) ?? [];
      if (from === undefined || timeline === undefined || to === undefined) {
        throw databaseError('DATABASE_FAILED', 'pg_basebackup has not reported the positions of the backup.');
      }
      const end = parsePosition(to);
      const after = await observe();
      return {
        kind: 'database',
        engine: 'postgresql',
        instance: server.instance,
        ...listedDatabases(state.databases.map(({ name }) => shortened(name, 255))),
        backupType: 'full',
        version: state.version,
        from,
        to,
        branch: branchOf({ cluster: state.cluster, timeline: Number(timeline).toString(16) }),
        basedOn: null,
        recoverableFrom: after.at,
        recoverableTo: seen.findLast(({ position }) => position <= end)?.at ?? null,
        logsHeldBy,
      };
    },
    async close() {
      over.abort();
      program.stop();
      await Promise.all([observing, program.ended]);
    },
  };
}

/** The name of the only file of a log backup: the segments one after another. */
export const LOG = 'log.wal';

const broken = (why: string) =>
  databaseError(
    'CHAIN_BROKEN',
    `The log does not continue the last backup: ${why}. The next backup is a full one.`,
  );

/**
 * The WAL since the last backup, in whole segments. It is received as a standby would, so the settings of the server
 * stay as they are.
 */
export async function logBackup(
  server: PostgresServer,
  state: PostgresState,
  order: BackupOrder,
): Promise<OpenBackup> {
  const { previous, signal } = order;
  if (previous?.to == null) throw broken('the Muster server knows no earlier backup');
  if (previous.instance !== server.instance) throw broken('it belongs to another server');
  const branch = branchOf(state);
  if (previous.branch !== branch) throw broken('the server is another one now, or on another timeline');
  const logsHeldBy = await releaseLogs(server, previous.to, order);
  const segmentBytes = BigInt(state.segmentBytes);
  const begin = beginOfSegment(parsePosition(previous.to), segmentBytes);
  const { at, end } = await switchLog(server, segmentBytes, signal);
  if (end <= begin) throw broken('the server is behind it');
  const names: string[] = [];
  for (let next = begin; next < end; next += segmentBytes) {
    names.push(segmentName(timelineOf(branch), next, segmentBytes));
  }
  await assertThere(server, names[0] ?? '', signal);
  await assertRoom(order.spool, Number(end - begin));
  await receive(server, { begin, end, segmentBytes, timeline: timelineOf(branch) }, order);
  for (const name of names) {
    const found = await stat(path.join(order.spool, name)).catch(() => undefined);
    if (found?.size !== state.segmentBytes) throw broken(`the segment ${name} was not received`);
  }
  return {
    fileName: LOG,
    content: contentOf(names.map((name) => path.join(order.spool, name))),
    expectedBytes: Number(end - begin),
    finish: () =>
      Promise.resolve({
        kind: 'database',
        engine: 'postgresql',
        instance: server.instance,
        ...listedDatabases(state.databases.map(({ name }) => shortened(name, 255))),
        backupType: 'log',
        version: state.version,
        from: writePosition(begin),
        to: writePosition(end),
        branch,
        basedOn: null,
        recoverableFrom: null,
        recoverableTo: at,
        logsHeldBy,
      }),
    close: () => Promise.resolve(),
  };
}

/**
 * Ends the current segment. A transaction of ours follows the recorded time: a restore up to this time can stop before
 * it, and does not fail because the log ends too early.
 */
async function switchLog(server: PostgresServer, segmentBytes: bigint, signal: AbortSignal) {
  const [at = '', , switched = ''] = await ask(
    server,
    [
      `select to_char(date_trunc('milliseconds', clock_timestamp()) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
      `select pg_logical_emit_message(true, 'muster', '')`,
      'select pg_switch_wal()',
    ],
    signal,
  );
  return { at, end: endOfSegment(parsePosition(switched), segmentBytes) };
}

/** The server may report late that it no longer has the segment. */
async function assertThere(server: PostgresServer, name: string, signal: AbortSignal): Promise<void> {
  const [size = ''] = await ask(server, [`select size from pg_stat_file('pg_wal/${name}', true)`], signal);
  if (size === '') throw recycled();
}

const KEEP_FREE_BYTES = 256 * 1024 ** 2;

async function assertRoom(spool: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(spool);
  if (bytes + KEEP_FREE_BYTES <= bavail * bsize) return;
  throw databaseError(
    'SPOOL_FULL',
    `The log since the last backup takes ${Math.ceil(bytes / 1024 ** 2)} MiB, which do not fit on the disk of the agent.`,
  );
}

interface Span {
  begin: bigint;
  end: bigint;
  segmentBytes: bigint;
  timeline: number;
}

async function receive(
  server: PostgresServer,
  { begin, end, segmentBytes, timeline }: Span,
  { spool, signal }: BackupOrder,
): Promise<void> {
  const file = await findTool('pg_receivewal', server.major, server.programFolder);
  // pg_receivewal continues after the newest segment in its folder, of which it checks only the name and the size.
  const planted = await open(
    path.join(spool, segmentName(timeline, begin - segmentBytes, segmentBytes)),
    'wx',
    0o600,
  );
  await planted.truncate(Number(segmentBytes));
  await planted.chown(server.user.uid, server.user.gid);
  await planted.close();
  await chmod(spool, 0o700);
  await chown(spool, server.user.uid, server.user.gid);
  // The database user cannot reach the private folder by its path, so it gets an open descriptor.
  const folder = await open(spool, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { code, stderr } = await runProgram({
      file,
      args: [
        ...connectArguments(server),
        // It stops after this position, which is the last one of a segment.
        '--directory',
        GIVEN_FOLDER,
        '--endpos',
        writePosition(end - 1n),
        '--no-loop',
        '--verbose',
      ],
      user: server.user,
      env: environmentOf(server),
      folder: folder.fd,
      signal,
    });
    if (code !== 0) throw failureOf(stderr, 'pg_receivewal has failed');
  } finally {
    await folder.close();
  }
}

async function* contentOf(files: readonly string[]): AsyncGenerator<Uint8Array, void> {
  for (const file of files) {
    // The folder belongs to the database user, who could place a link to a file of another user.
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    for await (const bytes of handle.createReadStream({ highWaterMark: 1024 * 1024 })) {
      if (bytes instanceof Uint8Array) yield bytes;
    }
  }
}
