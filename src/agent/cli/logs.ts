import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { clock } from '../../clock.ts';
import { DiagnosticLevel } from '../../protocol/index.ts';
import { printable } from '../core/plain-text.ts';
import { logFolder, LogLine, LOG_WRITERS, logFiles, type LogWriter } from '../os/diagnostic-log.ts';
import { hasCode } from '../os/files/private-file.ts';
import { defaultDataDir } from '../os/releases/layout.ts';

const POLL_MS = 250;
const MESSAGE_MAX = 8000;

interface Options {
  dataDir: string;
  follow: boolean;
  level: DiagnosticLevel;
  component?: string[];
  lines: number;
  json: boolean;
}

export function addLogs(program: Command): void {
  program
    .command('logs')
    .description('show what the agent and its watchdog have noted about themselves, the oldest line first')
    .option('-f, --follow', 'go on with new lines, until Ctrl+C', false)
    .addOption(
      new Option('--level <level>', 'lines of this level and above')
        .choices(DiagnosticLevel.options)
        .default('debug'),
    )
    .option(
      '--component <names>',
      'lines of these parts only, separated by commas: watchdog, agent, connection, shipping',
      (text) => text.split(','),
    )
    .option('-n, --lines <count>', 'show so many lines of the past', count, 100)
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print one JSON object per line', false)
    .action(async (options: Options) => {
      endWithReader();
      const reader = new LogReader(options.dataDir);
      const past = (await reader.next()).filter((line) => fits(line, options));
      if (past.length === 0) console.error(`${logFolder(options.dataDir)} has no such lines.`);
      for (const line of past.slice(Math.max(0, past.length - options.lines))) print(line, options.json);
      while (options.follow) {
        await clock.sleep(POLL_MS);
        for (const line of await reader.next()) if (fits(line, options)) print(line, options.json);
      }
    });
}

function fits(line: LogLine, { level, component }: Options): boolean {
  const rank = (each: DiagnosticLevel) => DiagnosticLevel.options.indexOf(each);
  return rank(line.level) >= rank(level) && component?.includes(line.component) !== false;
}

function print(line: LogLine, json: boolean): void {
  if (json) return console.log(JSON.stringify(line));
  const { timestamp, level, component, message } = line;
  console.log(printable(`${timestamp}  ${level.padEnd(5)}  ${component}: ${message}`, MESSAGE_MAX));
}

function count(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number, at most 999999.');
}

/** If the output goes to a program that stops reading, such as `head`, exit quietly. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | (constants.O_NONBLOCK ?? 0);

/** How far the files of a program were read. */
interface Mark {
  /** Identity of the file itself, across renames. */
  id: string;
  offset: number;
}

interface OpenedFile {
  id: string;
  size: number;
  handle: FileHandle;
}

/**
 * Reads the diagnostic logs of all programs. Each call of `next` returns the lines since the last call, also across
 * rotations.
 */
export class LogReader {
  readonly #dataDir: string;
  readonly #marks = new Map<LogWriter, Mark>();
  #held: LogLine[] = [];

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  /**
   * Sorted by time. Lines of one program with the same time keep their order. Lines that are written while the files
   * are read come with the next call, so that they do not overtake earlier lines of another program.
   */
  async next(): Promise<LogLine[]> {
    const from = clock.date().toISOString();
    const found: LogLine[] = [];
    for (const writer of LOG_WRITERS) found.push(...(await this.#nextOf(writer)));
    const to = clock.date().toISOString();
    // Selecting all later lines would not do: after the clock was set back, new lines would be missed.
    const isMeanwhile = ({ timestamp }: LogLine) => timestamp > from && timestamp <= to;
    const ready = [...this.#held, ...found.filter((line) => !isMeanwhile(line))];
    this.#held = found.filter(isMeanwhile);
    return ready.sort((a, b) => (a.timestamp < b.timestamp ? -1 : a.timestamp > b.timestamp ? 1 : 0));
  }

  async #nextOf(writer: LogWriter): Promise<LogLine[]> {
    const files = await openAll(logFiles(this.#dataDir, writer));
    try {
      const mark = this.#marks.get(writer);
      const known = files.findIndex(({ id }) => id === mark?.id);
      let text = '';
      // If the marked file is gone, all the files came after it.
      for (const [at, { id, size, handle }] of files.entries()) {
        if (at < known) continue;
        const kept = at === known && mark !== undefined ? mark.offset : 0;
        // The file was truncated.
        const offset = kept > size ? 0 : kept;
        const part = await textFrom(handle, offset, size);
        const isPresent = at === files.length - 1;
        // The rest of the last line may not be written yet.
        const whole = isPresent ? part.subarray(0, part.lastIndexOf(NEW_LINE) + 1) : part;
        text += `${whole.toString('utf8')}\n`;
        if (isPresent) this.#marks.set(writer, { id, offset: offset + whole.length });
      }
      return text.split('\n').flatMap(parsed);
    } finally {
      await Promise.all(files.map(async ({ handle }) => handle.close()));
    }
  }
}

const NEW_LINE = 0x0a;

/**
 * Oldest first. The files are opened starting with the newest name, because rotation moves files to older names: a
 * file may then appear twice, but none is missed.
 */
async function openAll(names: readonly string[]): Promise<OpenedFile[]> {
  const files: OpenedFile[] = [];
  for (const name of names) {
    let handle: FileHandle;
    try {
      handle = await open(name, READ);
    } catch (error) {
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ELOOP')) continue;
      await Promise.all(files.map(async (file) => file.handle.close()));
      throw error;
    }
    const { dev, ino, birthtimeNs, size } = await handle.stat({ bigint: true });
    const id = `${dev}:${ino}:${birthtimeNs}`;
    if (files.some((file) => file.id === id)) await handle.close();
    else files.unshift({ id, size: Number(size), handle });
  }
  return files;
}

async function textFrom(handle: FileHandle, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.alloc(to - from);
  const { bytesRead } = await handle.read(bytes, 0, bytes.length, from);
  return bytes.subarray(0, bytesRead);
}

/** A line that is torn or has another format is skipped. */
function parsed(line: string): LogLine[] {
  if (line === '') return [];
  try {
    const found = LogLine.safeParse(JSON.parse(line));
    return found.success ? [found.data] : [];
  } catch {
    return [];
  }
}
