import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
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

/** `undefined` where the file does not exist. */
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

/** Appends to a file, and creates it where it does not exist. */
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

/** Removes the drafts of killed processes. The draft of a process that is writing is younger. */
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
