import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { hasCode } from '../files/private-file.ts';
import { LOG_WRITERS, logFiles, LogLine, type LogWriter } from './log-files.ts';

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | (constants.O_NONBLOCK ?? 0);

/** How far a program's files were read. */
interface Mark {
  /** Of the file itself, whatever its name is now. */
  id: string;
  offset: number;
}

interface OpenedFile {
  id: string;
  size: number;
  handle: FileHandle;
}

/** Reads the diagnostic log of all programs. Each call of `next` returns what came since the last one, also over rotations. */
export class LogReader {
  readonly #dataDir: string;
  readonly #marks = new Map<LogWriter, Mark>();
  #held: LogLine[] = [];

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  /**
   * By time. Lines of one program with the same time stay in their order. What is written while the files are read one
   * after another comes with the next call, so that a line of one program does not overtake an earlier one of another.
   */
  async next(): Promise<LogLine[]> {
    const from = clock.date().toISOString();
    const found: LogLine[] = [];
    for (const writer of LOG_WRITERS) found.push(...(await this.#nextOf(writer)));
    const to = clock.date().toISOString();
    // Not simply all later lines: those of a clock that was set back since then would wait.
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
      // Where the marked file is gone, all the files came after it.
      for (const [at, { id, size, handle }] of files.entries()) {
        if (at < known) continue;
        const kept = at === known && mark !== undefined ? mark.offset : 0;
        // Somebody has emptied the file.
        const offset = kept > size ? 0 : kept;
        const part = await textFrom(handle, offset, size);
        const isPresent = at === files.length - 1;
        // The end of a line may still be to come.
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
 * The oldest first. They are opened from the newest name on, because files move to older names only: a rotation meanwhile
 * makes one appear twice, and none disappear between two names.
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

/** A line that was torn, or is not ours, is left out. */
function parsed(line: string): LogLine[] {
  if (line === '') return [];
  try {
    const found = LogLine.safeParse(JSON.parse(line));
    return found.success ? [found.data] : [];
  } catch {
    return [];
  }
}
