import { appendFileSync, readFileSync } from 'node:fs';

/** Names the file in which the test processes note what each test file took. */
export const FILE_TIMES_VARIABLE = 'MUSTER_TEST_TIMES';
/** Whether other test files run beside the one of this process, and the run looks at what it notes. */
export const isWholeRun = process.env[FILE_TIMES_VARIABLE] !== undefined;

interface FileTime {
  kind: 'file';
  file: string;
  /** From the end of the file before it in the same process, so with the time that its imports took. */
  seconds: number;
  /** Of the process itself, and of the programs that it has started and seen end. Postgres is not among them. */
  processorSeconds: number;
}

/** A test of a tier with a limit for its duration that took more than half of it. */
interface SlowTest {
  kind: 'test';
  file: string;
  title: string;
  seconds: number;
  /** Over the limit, also when the speed of the machine at that moment is taken into account. */
  isTooLong: boolean;
}

export interface JudgedTime {
  ms: number;
  isTooLong: boolean;
}

const SLOW_TEST_SECONDS = 1;

let since = performance.now();
let processorSince = 0;

/** Notes what the file took that has just ended in this process, if the run asks for it. */
export function noteFileTime(file: string): void {
  const now = performance.now();
  const processorNow = processorSeconds();
  note({
    kind: 'file',
    file,
    seconds: (now - since) / 1000,
    processorSeconds: processorNow - processorSince,
  });
  since = now;
  processorSince = processorNow;
}

/** Notes a test of a tier with a limit, if it is near the limit: on a slower machine it may be over it. */
export function noteTestTime(file: string, title: string, { ms, isTooLong }: JudgedTime): void {
  if (ms >= SLOW_TEST_SECONDS * 1000) note({ kind: 'test', file, title, seconds: ms / 1000, isTooLong });
}

function note(time: FileTime | SlowTest): void {
  const notes = process.env[FILE_TIMES_VARIABLE];
  if (notes !== undefined) appendFileSync(notes, `${JSON.stringify(time)}\n`);
}

const readNotes = (notes: string): (FileTime | SlowTest)[] =>
  readFileSync(notes, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

/** The tests that are near the limit of their tier, one a line. */
export function slowTests(notes: string, root: string): string[] {
  const tests = readNotes(notes)
    .filter((time) => time.kind === 'test')
    .sort((one, other) => other.seconds - one.seconds);
  if (tests.length === 0) return [];
  return [
    `Tests over ${SLOW_TEST_SECONDS} s, whose limit is twice that:`,
    ...tests.map(
      ({ file, title, seconds }) =>
        `${seconds.toFixed(1).padStart(7)}  ${file.replace(`${root}/`, '')}: ${title}`,
    ),
  ];
}

/** The files with tests over the limit, which are to be repeated alone. */
export function filesToRepeat(notes: string): string[] {
  const tests = readNotes(notes).filter((time) => time.kind === 'test' && time.isTooLong);
  return [...new Set(tests.map(({ file }) => file))].sort();
}

/** The files that took longest, one a line. */
export function slowestFiles(notes: string, root: string, count: number): string[] {
  const times = readNotes(notes).filter((time) => time.kind === 'file');
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
