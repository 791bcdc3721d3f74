import { clock } from '../../../clock.ts';
import type { ProcessState } from '../../../protocol/index.ts';
import type { Sources } from '../machine-sources.ts';
import type { IdentifiedProcess, ProcessDetails, ProcessReader } from './process-reader.ts';

/** The kernel counts processor time and starts in these, whatever its own clock does. */
const TICKS_PER_SECOND = 100;
const USUAL_PAGE_BYTES = 4096;
/** More open files at once could exceed the limit of this process. */
const READ_AT_ONCE = 32;
/** The kernel cuts names to so many bytes. */
const NAME_BYTES = 15;
/** A flag of the threads of the kernel, which are listed like processes. */
const OF_KERNEL = 0x20_00_00;

/** Processes from `/proc`, without a child process: a machine that is short of processes can still be looked at. */
export const LINUX_PROCESSES: ProcessReader = {
  async read(sources) {
    const [names, pageBytes, bootedAt] = await Promise.all([
      sources.names('/proc'),
      pageSize(sources),
      bootTime(sources),
    ]);
    const pids = names.filter((name) => /^[1-9]\d*$/.test(name));
    const lines = await sources.memoryFiles(pids.map((pid) => `/proc/${pid}/stat`));
    const processes = lines
      .map((line) => parseStat(line, { pageBytes, bootedAt }))
      .filter((one) => one !== undefined);
    // The agent itself is always there.
    if (processes.length === 0) throw new Error('/proc lists no processes.');
    return processes;
  },
  async details(sources, processes) {
    const users = parseUsers((await sources.file('/etc/passwd')) ?? '');
    const statuses = await sources.memoryFiles(processes.map(({ pid }) => `/proc/${pid}/status`));
    const commandLines = await inBatches(processes, (process) => commandLineOf(sources, process));
    return new Map(
      processes.map((process, place) => [
        process.pid,
        detailsOf(process, users, statuses[place] ?? '', commandLines[place] ?? ''),
      ]),
    );
  },
};

/**
 * The kernel locks the memory of the process for this. If the process waits for a disk, that lock may never be free again,
 * so its command line is not read. The others are not read by `memoryFiles`, which would block the agent.
 */
const commandLineOf = async (sources: Sources, { pid, state }: IdentifiedProcess): Promise<string> =>
  state === 'waiting' ? '' : ((await sources.file(`/proc/${pid}/cmdline`)) ?? '');

function detailsOf(
  { name }: IdentifiedProcess,
  users: ReadonlyMap<string, string>,
  status: string,
  cmdline: string,
): ProcessDetails {
  const words = wordsOf(cmdline);
  // The second number is the one whose rights count.
  const uid = /^Uid:\s+\d+\s+(\d+)/m.exec(status)?.[1];
  const program = words[0]?.split('/').at(-1) ?? '';
  const isCut = Buffer.byteLength(name) >= NAME_BYTES && program.startsWith(name);
  return {
    ...(words.length === 0 ? {} : { commandLine: words.join(' ') }),
    ...(uid === undefined ? {} : { user: users.get(uid) ?? uid }),
    ...(isCut ? { name: program } : {}),
  };
}

/** Words end with NUL. A program may have written anything else there, such as one text with blanks. */
function wordsOf(cmdline: string): string[] {
  return cmdline.replace(/\0+$/, '').split('\0').filter(Boolean);
}

const STATES: Readonly<Record<string, ProcessState>> = {
  R: 'running',
  S: 'sleeping',
  I: 'sleeping',
  D: 'waiting',
  T: 'stopped',
  t: 'stopped',
  Z: 'zombie',
  X: 'zombie',
};

/**
 * A line such as `812 (name) S 1 …`. The name is in brackets and may itself hold brackets, blanks and line breaks, so the
 * last bracket counts.
 * @returns undefined if the process has ended meanwhile
 */
export function parseStat(
  line: string | undefined,
  { pageBytes, bootedAt }: { pageBytes: number; bootedAt: number | undefined },
): IdentifiedProcess | undefined {
  const [opened, closed] = [line?.indexOf('(') ?? -1, line?.lastIndexOf(')') ?? -1];
  if (line === undefined || opened < 0 || closed < opened) return undefined;
  const pid = Number(line.slice(0, opened));
  const fields = line.slice(closed + 2).split(' ');
  const [parentPid, flags, userTicks, systemTicks, startTicks, pages] = [1, 6, 11, 12, 19, 21].map((at) =>
    Number(fields[at] ?? Number.NaN),
  );
  const numbers = [pid, parentPid, flags, userTicks, systemTicks, startTicks, pages];
  if (!numbers.every((number) => Number.isFinite(number))) return undefined;
  const isOfKernel = ((flags ?? 0) & OF_KERNEL) !== 0;
  return {
    pid,
    parentPid: parentPid ?? 0,
    name: line.slice(opened + 1, closed),
    cpuSeconds: ((userTicks ?? 0) + (systemTicks ?? 0)) / TICKS_PER_SECOND,
    ramBytes: Math.max(0, pages ?? 0) * pageBytes,
    startedAt:
      bootedAt === undefined
        ? undefined
        : Math.round(bootedAt + ((startTicks ?? 0) * 1000) / TICKS_PER_SECOND),
    state: STATES[fields[0] ?? ''],
    ...(pid === 1 || isOfKernel ? { isCritical: true } : {}),
  };
}

/** Names by number, from lines such as `www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin`. */
function parseUsers(passwd: string): Map<string, string> {
  return new Map(
    passwd.split('\n').flatMap((line) => {
      const [name, , uid] = line.split(':');
      return name === undefined || name === '' || uid === undefined ? [] : [[uid, name] as const];
    }),
  );
}

/** No file names the size of pages, but one of this process counts its memory in pages and another one in bytes. */
async function pageSize(sources: Sources): Promise<number> {
  const [pages, kibibytes] = await Promise.all([
    sources.file('/proc/self/statm').then((text) => Number(text?.split(' ')[1])),
    sources.file('/proc/self/status').then((text) => Number(/^VmRSS:\s+(\d+) kB/m.exec(text ?? '')?.[1])),
  ]);
  // They are read one after another, so only the nearest power of two is meant.
  const size = 2 ** Math.round(Math.log2((kibibytes * 1024) / pages));
  return size >= USUAL_PAGE_BYTES && size <= 2 ** 20 ? size : USUAL_PAGE_BYTES;
}

const EARLY_MS = 5000;

/** When the machine started, in ms since 1970. */
async function bootTime(sources: Sources): Promise<number | undefined> {
  const [machine, own] = await Promise.all([sources.file('/proc/stat'), sources.file('/proc/self/stat')]);
  const seconds = /^btime (\d+)$/m.exec(machine ?? '')?.[1];
  if (seconds === undefined) return undefined;
  const bootedAt = Number(seconds) * 1000;
  const ownStart = parseStat(own, { pageBytes: USUAL_PAGE_BYTES, bootedAt })?.startedAt ?? 0;
  // The monotonic clock counts from the start of this process.
  const latest = clock.now() - clock.monotonic();
  // Some containers say when the container started, while processes count from the start of the machine. By that,
  // this process would have started later than it has.
  return ownStart > latest + EARLY_MS ? bootedAt - (ownStart - latest) : bootedAt;
}

async function inBatches<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += READ_AT_ONCE) {
    results.push(...(await Promise.all(items.slice(at, at + READ_AT_ONCE).map(work))));
  }
  return results;
}
