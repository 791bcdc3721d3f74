import { appendFileSync, readFileSync } from 'node:fs';

/** Names the file in which the test processes note what each test file took. */
export const FILE_TIMES_VARIABLE = 'MUSTER_TEST_TIMES';

interface FileTime {
  file: string;
  /** From the end of the file before it in the same process, so with the time that its imports took. */
  seconds: number;
  /** Of the process itself, and of the programs that it has started and seen end. Postgres is not among them. */
  processorSeconds: number;
}

let since = performance.now();
let processorSince = 0;

/** Notes what the file took that has just ended in this process, where somebody wants to know. */
export function noteFileTime(file: string): void {
  const notes = process.env[FILE_TIMES_VARIABLE];
  if (notes === undefined) return;
  const now = performance.now();
  const processorNow = processorSeconds();
  const time: FileTime = {
    file,
    seconds: (now - since) / 1000,
    processorSeconds: processorNow - processorSince,
  };
  since = now;
  processorSince = processorNow;
  appendFileSync(notes, `${JSON.stringify(time)}\n`);
}

/** The files that took longest, one a line. */
export function slowestFiles(notes: string, root: string, count: number): string[] {
  const times = readFileSync(notes, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line): FileTime => JSON.parse(line));
  const all = times.reduce((sum, { processorSeconds }) => sum + processorSeconds, 0);
  return [
    `The slowest of ${times.length} files, in seconds and processor seconds (${all.toFixed(0)} altogether):`,
    ...times
      .sort((one, other) => other.seconds - one.seconds)
      .slice(0, count)
      .map(
        ({ file, seconds, processorSeconds }) =>
          `${seconds.toFixed(1).padStart(7)} ${processorSeconds.toFixed(1).padStart(7)}  ${file.replace(`${root}/`, '')}`,
      ),
  ];
}

function processorSeconds(): number {
  try {
    const fields = readFileSync('/proc/self/stat', 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    // utime, stime, cutime and cstime, in hundredths of a second.
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) / 100, 0);
  } catch {
    // Elsewhere than on Linux: without the programs.
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
}
