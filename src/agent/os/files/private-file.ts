import { randomBytes } from 'node:crypto';
import {
  constants,
  closeSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';

/** Files that only the agent's user may read. They are never opened through a link, and written completely or not at all. */

const NEW = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const JSON_MAX_BYTES = 16 * 1024 * 1024;
const DRAFT = /\.[0-9a-f]{16}\.draft$/;
const DRAFT_KEPT_MS = 3_600_000;

export async function writePrivateJson(file: string, value: unknown): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const handle = await replaceFile(file, Buffer.from(`${JSON.stringify(value, null, 2)}\n`));
  await handle.close();
}

/** Replaces a file atomically and returns the open new one. The old file stays until the new one is complete. */
export async function replaceFile(file: string, content: Buffer): Promise<FileHandle> {
  const draft = `${file}.${randomBytes(8).toString('hex')}.draft`;
  const handle = await open(draft, NEW, 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
    await rename(draft, file);
  } catch (error) {
    await handle.close();
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(path.dirname(file));
  return handle;
}

/** `undefined` if the file does not exist. */
export async function readPrivateJson(file: string): Promise<unknown> {
  const content = await readPrivateFile(file);
  return content === undefined ? undefined : (JSON.parse(content) as unknown);
}

export async function readPrivateFile(file: string): Promise<string | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(file, READ);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    if (!hasCode(error, 'ELOOP')) throw error;
    throw new Error(`${file} is a link; the agent reads only its own files.`, { cause: error });
  }
  try {
    const { size } = await regular(handle, file);
    if (size > JSON_MAX_BYTES) throw new Error(`${file} is larger than ${JSON_MAX_BYTES} bytes.`);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/** Appends to a file, and creates it if it does not exist. */
export async function appendPrivate(file: string, text: string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
  const handle = await open(file, flags, 0o600);
  try {
    await regular(handle, file);
    await handle.appendFile(text);
  } finally {
    await handle.close();
  }
}

/** Removes drafts of killed processes. The draft of a process that is still writing is younger. */
export async function removeOldDrafts(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((each) => DRAFT.test(each))) {
    const file = path.join(folder, name);
    const found = await stat(file).catch(() => undefined);
    if (found !== undefined && clock.now() - found.mtimeMs > DRAFT_KEPT_MS) await rm(file, { force: true });
  }
}

/** Makes a new name in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows neither needs nor allows this.
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export const hasCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code;

async function regular(handle: FileHandle, file: string) {
  const found = await handle.stat();
  if (!found.isFile()) throw new Error(`${file} is not a regular file.`);
  return found;
}

interface LineFileLimits {
  /** When a file would exceed the limit, it is renamed to `<file>.1` and a new one begins. */
  maxBytes: number;
  /** How many former files are kept, at least one: `<file>.1` is the newest. */
  formerFiles: number;
  /** Whether the line must survive a power failure: then the call waits for the disk. */
  isDurable: boolean;
}

/**
 * Appends a line to a private file of bounded size. When this returns, the line survives the end of the process. A
 * line that was torn by a power failure or a full disk is terminated first, so that it does not corrupt the next one.
 */
export function appendLine(file: string, line: string, limits: LineFileLimits): void {
  const text = `${line}\n`;
  if (sizeOf(file) + Buffer.byteLength(text) > limits.maxBytes) rotate(file, limits.formerFiles);
  const handle = openSync(file, APPEND, 0o600);
  try {
    const found = fstatSync(handle);
    if (!found.isFile()) throw new Error(`${file} is not a regular file.`);
    const whole = isTorn(handle, found.size) ? `\n${text}` : text;
    const written = writeSync(handle, whole);
    if (written < Buffer.byteLength(whole)) throw new Error(`${file}: only a part of the line was written.`);
    if (limits.isDurable) fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const APPEND =
  constants.O_RDWR |
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_NOFOLLOW |
  // Without this flag, opening a pipe blocks until a reader opens it. Windows does not know it.
  (constants.O_NONBLOCK ?? 0);

function isTorn(handle: number, size: number): boolean {
  const last = Buffer.alloc(1);
  return size > 0 && readSync(handle, last, 0, 1, size - 1) === 1 && last.toString() !== '\n';
}

function sizeOf(file: string): number {
  return lstatSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function rotate(file: string, formerFiles: number): void {
  for (let number = formerFiles - 1; number >= 0; number--) {
    const from = number === 0 ? file : `${file}.${number}`;
    if (lstatSync(from, { throwIfNoEntry: false }) !== undefined) renameSync(from, `${file}.${number + 1}`);
  }
}
