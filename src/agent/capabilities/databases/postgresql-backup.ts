import { constants } from 'node:fs';
import { chown, chmod, open, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { databaseError } from '../database-error.ts';
import type { BackupOrder, OpenBackup } from '../engine-port.ts';
import { GIVEN_FOLDER, runProgram } from '../program.ts';
import {
  beginOfSegment,
  endOfSegment,
  parsePosition,
  segmentName,
  timelineOf,
  writePosition,
} from './positions.ts';
import {
  ask,
  branchOf,
  connectArguments,
  environmentOf,
  failureOf,
  findTool,
  type PostgresServer,
  type PostgresState,
  recycled,
} from './server.ts';
import { releaseLogs } from './slot.ts';

/** The name of the only file of a log backup: the segments one after another. */
export const LOG = 'log.wal';

const broken = (why: string) =>
  databaseError(
    'CHAIN_BROKEN',
    `The log does not continue the last backup: ${why}. The next backup is a full one.`,
  );

/**
 * What the server has logged since the last backup, in whole segments. The settings of the server stay as they are: its log
 * is fetched as a standby would do.
 */
export async function logBackup(
  server: PostgresServer,
  state: PostgresState,
  order: BackupOrder,
): Promise<OpenBackup> {
  const { previous, signal } = order;
  if (previous?.to == null) throw broken('the server of Muster names none');
  if (previous.instance !== server.instance) throw broken('it is of another server');
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
        databases: state.databases.map(({ name }) => name.slice(0, 255)),
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
 * Ends the segment that the server writes to. A transaction of ours comes after the instant that is noted: a restore up to
 * this instant has something to stop before, and does not fail because the log ends too early.
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

/** Where the server has it no more, its answer to a program that asks for it may come late. */
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
    `The log since the last backup has ${Math.ceil(bytes / 1024 ** 2)} MiB, for which the disk of the agent has no room.`,
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
  // It begins after the newest segment in its folder, of which it looks at the name and the size only.
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
  // The user of the database cannot reach the private folder by its path, and need not.
  const folder = await open(spool, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { code, stderr } = await runProgram({
      file,
      args: [
        ...connectArguments(server),
        // It stops when it has passed this position, which is the last one of a segment.
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
    // The folder belongs to the user of the database, who could lead us to a file of somebody else by a link.
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    for await (const bytes of handle.createReadStream({ highWaterMark: 1024 * 1024 })) {
      if (bytes instanceof Uint8Array) yield bytes;
    }
  }
}
