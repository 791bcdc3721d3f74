import { readOutput } from '../../../os/processes/child-process.ts';
import { databaseError, toolMissing } from '../database-error.ts';
import type { EmptyTarget } from '../empty-target.ts';
import type { ChainPart, OpenRestore, RestoreOrder } from '../engine-port.ts';
import { readTar } from '../tar-reader.ts';
import { BASE } from './full-backup.ts';
import { LOG } from './log-backup.ts';
import { beginOfSegment, parsePosition, segmentName, timelineOf } from './positions.ts';
import { recover, settingsFor } from './recovery.ts';
import { findTool } from './server.ts';

/** Throws before anything is written, where the logs do not join or the programs of the release are missing. */
export async function openRestore(order: RestoreOrder): Promise<OpenRestore> {
  const major = Number.parseInt(order.version, 10);
  const timeline = timelineOf(order.branch);
  if (!Number.isInteger(major) || !Number.isInteger(timeline)) {
    throw databaseError('BACKUP_DAMAGED', 'The backup does not say of which release and timeline it is.');
  }
  assertJoined(order.parts);
  // Without recovery, the server of the customer does it.
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

/** A server reads the files of its own release only. */
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
  for await (const entry of readTar(content)) {
    if (entry.type === 'folder') {
      await target.makeFolder(entry.names);
      continue;
    }
    await writeFile(target, entry.names, entry.content);
  }
  for (const file of NEEDED) {
    if (!(await target.has(file.split('/')))) {
      throw databaseError('BACKUP_DAMAGED', `The backup has no ${file}.`);
    }
  }
}

async function writeFile(
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

/** Lays the segments of a log beside those of the full backup, which also says how long one is. */
async function placeLog(
  { from, to }: ChainPart,
  content: AsyncIterable<Uint8Array>,
  { target, timeline }: { target: EmptyTarget; timeline: number },
): Promise<void> {
  const known = (await target.namesIn(['pg_wal'])).find((name) => SEGMENT.test(name));
  const segmentBytes = known === undefined ? 0 : await target.sizeOf(['pg_wal', known]);
  const begin = parsePosition(from ?? '0/0');
  const end = parsePosition(to ?? '0/0');
  // A power of two from 1 MiB to 1 GiB.
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
    await writeFile(target, ['pg_wal', segmentName(timeline, next, BigInt(segmentBytes))], segment());
    next += BigInt(segmentBytes);
  }
  if (next !== end) throw databaseError('BACKUP_DAMAGED', 'A log is shorter than it should be.');
}

/** A stream in pieces of one size. The last one has to be whole. */
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

/** What makes a server recover the folder when it starts with it, and where it stops. */
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
