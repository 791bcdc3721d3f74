import type { LogMetadata } from '../../../../protocol/index.ts';
import { openLogFile, type LogPart, type TextLog } from './log-files.ts';
import { entriesBackward, readPart } from './text-part.ts';
import type { UnpackSpace } from './unpack-space.ts';

/** The metadata of a text log. Its record count is exact where that is cheap; elsewhere it is marked as an estimate. */

export interface CountBudget {
  bytes: number;
}

export const COUNT_BYTES_MAX = 64 * 1024 * 1024;
/** The entries of logs up to this size are counted; for larger ones, the lines are. */
const EXACT_BYTES_MAX = 1024 * 1024;
const SAMPLE_BYTES = 256 * 1024;
const LINE_BYTES_TYPICAL = 100;

const FALLBACK_NOTE = (log: TextLog) =>
  `No systemd journal on this machine; read from the text file ${log.parts[0]?.path ?? log.name}.`;

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
  budget: CountBudget,
  signal: AbortSignal,
  space: UnpackSpace,
): Promise<LogMetadata> {
  const newest = Math.max(0, ...log.parts.filter((part) => part.size > 0).map((part) => part.writtenAt));
  const { count, remark } = await countRecords(log, budget, signal, space);
  return {
    name: log.name,
    displayName: TITLES[log.name] ?? log.name,
    recordCount: count,
    maxSize: 0,
    retentionDays: 0,
    lastWriteTime: newest === 0 ? '' : new Date(newest).toISOString(),
    source: 'file',
    note: FALLBACK_NOTE(log) + remark,
  };
}

async function countRecords(log: TextLog, budget: CountBudget, signal: AbortSignal, space: UnpackSpace) {
  const total = log.parts.reduce((sum, part) => sum + part.size, 0);
  if (total <= EXACT_BYTES_MAX && total <= budget.bytes && log.parts.every((part) => !part.compressed)) {
    budget.bytes -= total;
    let count = 0;
    for (const part of log.parts) count += await countEntries(log, part, signal, space);
    return { count, remark: '' };
  }
  let count = 0;
  let estimated = false;
  for (const part of log.parts) {
    const counted = await countLines(part, budget, signal);
    count += counted.lines;
    estimated ||= counted.estimated;
  }
  return { count, remark: ` recordCount ${estimated ? 'is estimated from' : 'counts'} lines.` };
}

async function countEntries(
  log: TextLog,
  part: LogPart,
  signal: AbortSignal,
  space: UnpackSpace,
): Promise<number> {
  const readable = await readPart(log, part, signal, space);
  try {
    let count = 0;
    for await (const entries of entriesBackward(readable, signal)) count += entries.length;
    return count;
  } finally {
    await readable.open.close();
  }
}

async function countLines(part: LogPart, budget: CountBudget, signal: AbortSignal) {
  const handle = await openLogFile(part);
  try {
    if (part.compressed) {
      // The last four bytes of a gzip file are its unpacked size, modulo 4 GiB.
      const trailer = Buffer.alloc(4);
      await handle.read(trailer, 0, 4, Math.max(0, part.size - 4));
      return { lines: Math.ceil(trailer.readUInt32LE(0) / LINE_BYTES_TYPICAL), estimated: true };
    }
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
