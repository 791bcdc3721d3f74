import type { FileHandle } from 'node:fs/promises';
import { constants, createGunzip } from 'node:zlib';
import type { LogMetadata } from '../../../../protocol/index.ts';
import { openLogFile, type LogPart, type TextLog, type PartTools } from './log-files.ts';
import { entriesBackward, readPart } from './text-part.ts';

/** The metadata of a text log. Its record count is exact if that is cheap; elsewhere it is marked as an estimate. */

export interface CountBudget {
  bytes: number;
}

export const COUNT_BYTES_MAX = 64 * 1024 * 1024;
/** Logs up to this size are counted by entries; larger ones by lines. */
const EXACT_BYTES_MAX = 1024 * 1024;
const SAMPLE_BYTES = 256 * 1024;

function originNote(log: TextLog, besideJournal: boolean): string {
  const file = `the text file ${log.parts[0]?.path ?? log.name}.`;
  return besideJournal ? `Read from ${file}` : `No systemd journal on this machine; read from ${file}`;
}

const TITLES: Readonly<Record<string, string>> = {
  'dpkg.log': 'Packages (dpkg)',
  'apt/history.log': 'Package installs (apt history)',
  'apt/term.log': 'Package installs (apt terminal)',
  'auth.log': 'Sign-ins and rights',
  syslog: 'System log',
  messages: 'System log',
  'kern.log': 'Kernel',
};

export async function describeTextLog(
  log: TextLog,
  { budget, besideJournal }: { budget: CountBudget; besideJournal: boolean },
  signal: AbortSignal,
  tools: PartTools,
): Promise<LogMetadata> {
  const newest = Math.max(0, ...log.parts.filter((part) => part.size > 0).map((part) => part.writtenAt));
  const { count, remark } = await countRecords(log, budget, signal, tools);
  return {
    name: log.name,
    displayName: TITLES[log.name] ?? log.name,
    recordCount: count,
    maxSize: 0,
    retentionDays: 0,
    lastWriteTime: newest === 0 ? '' : new Date(newest).toISOString(),
    source: 'file',
    note: originNote(log, besideJournal) + remark,
  };
}

async function countRecords(log: TextLog, budget: CountBudget, signal: AbortSignal, tools: PartTools) {
  const total = log.parts.reduce((sum, part) => sum + part.size, 0);
  if (
    total <= EXACT_BYTES_MAX &&
    total <= budget.bytes &&
    log.parts.every(({ packing }) => packing === undefined)
  ) {
    budget.bytes -= total;
    let count = 0;
    for (const part of log.parts) count += await countEntries(log, part, signal, tools);
    return { count, remark: '' };
  }
  let count = 0;
  let estimated = false;
  let uncounted = 0;
  for (const part of log.parts) {
    const counted = await countLines(part, budget, signal);
    if (counted === undefined) uncounted += 1;
    count += counted?.lines ?? 0;
    estimated ||= counted?.estimated ?? false;
  }
  const left = uncounted === 0 ? '' : ` It leaves out ${uncounted} compressed parts.`;
  return { count, remark: ` recordCount ${estimated ? 'is estimated from' : 'counts'} lines.${left}` };
}

async function countEntries(
  log: TextLog,
  part: LogPart,
  signal: AbortSignal,
  tools: PartTools,
): Promise<number> {
  const readable = await readPart(log, part, signal, tools);
  try {
    let count = 0;
    for await (const entries of entriesBackward(readable, signal)) count += entries.length;
    return count;
  } finally {
    await readable.open.close();
  }
}

/** `undefined` for a part that only another program can unpack. */
async function countLines(part: LogPart, budget: CountBudget, signal: AbortSignal) {
  if (part.packing !== undefined && part.packing !== 'gz') return undefined;
  const handle = await openLogFile(part);
  try {
    if (part.packing === 'gz') return { lines: await estimateGzip(handle, part.size), estimated: true };
    const whole = part.size <= budget.bytes;
    const wanted = whole ? part.size : Math.min(part.size, SAMPLE_BYTES);
    if (whole) budget.bytes -= part.size;
    const buffer = Buffer.allocUnsafe(64 * 1024);
    let read = 0;
    let lines = 0;
    let last = 10;
    while (read < wanted && !signal.aborted) {
      const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, wanted - read), read);
      if (bytesRead === 0) break;
      for (let at = buffer.indexOf(10); at !== -1 && at < bytesRead; at = buffer.indexOf(10, at + 1)) {
        lines += 1;
      }
      last = buffer[bytesRead - 1] ?? 10;
      read += bytesRead;
    }
    if (whole) return { lines: last === 10 ? lines : lines + 1, estimated: signal.aborted };
    return { lines: read === 0 ? 0 : Math.round((part.size * Math.max(1, lines)) / read), estimated: true };
  } finally {
    await handle.close();
  }
}

const UNPACKED_SAMPLE_MAX = 4 * 1024 * 1024;

/**
 * Counts the lines in the first part of a gzip file. Its last bytes, which hold the unpacked size, are of no use: a file
 * that was cut off ends with any bytes.
 */
async function estimateGzip(handle: FileHandle, size: number): Promise<number> {
  const gunzip = createGunzip({ finishFlush: constants.Z_SYNC_FLUSH });
  handle.createReadStream({ start: 0, end: SAMPLE_BYTES - 1, autoClose: false }).pipe(gunzip);
  let lines = 0;
  let unpacked = 0;
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines += 1;
      unpacked += chunk.length;
      if (unpacked > UNPACKED_SAMPLE_MAX) break;
    }
  } catch {
    // What could be unpacked until then is the sample.
  }
  const read = Math.min(size, gunzip.bytesWritten);
  return read === 0 ? 0 : Math.round((lines * size) / read);
}
