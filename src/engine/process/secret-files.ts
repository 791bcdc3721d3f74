import { randomBytes } from 'node:crypto';
import { closeSync, constants, existsSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';

/**
 * Secrets for one run of restic, outside its command line and its environment. On Linux each is a file without a name
 * that the program inherits as an open descriptor and reads as `/proc/self/fd/N`. Elsewhere each is a file that only
 * this user can read; it is removed when the program has ended, or when the engine is opened the next time.
 */

const FIRST_DESCRIPTOR = 3;
const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
const MEMORY = '/dev/shm';
const LEFTOVER = /^secret-(\d+)-[0-9a-f]{32}$/;

export type SecretPlace = 'descriptors' | 'files';

export const usualSecretPlace = (): SecretPlace =>
  process.platform === 'linux' && existsSync('/proc/self/fd') ? 'descriptors' : 'files';

export class SecretFiles {
  readonly #folder: string;
  readonly #place: SecretPlace;
  readonly #descriptors: number[] = [];
  readonly #files: string[] = [];

  constructor(folder: string, place: SecretPlace) {
    this.#folder = folder;
    this.#place = place;
  }

  /** The path by which the program reads the text or the bytes. */
  add(content: string | Uint8Array): string {
    return this.#place === 'descriptors' ? this.#addDescriptor(content) : this.#addFile(content);
  }

  /** Entries for `stdio` of the program, after its three standard streams. */
  get descriptors(): readonly number[] {
    return this.#descriptors;
  }

  /** Closes our own descriptors, once the program has inherited them. */
  close(): void {
    for (const descriptor of this.#descriptors.splice(0)) closeSync(descriptor);
  }

  async remove(): Promise<void> {
    this.close();
    await Promise.all(this.#files.splice(0).map((file) => rm(file, { force: true })));
  }

  #addDescriptor(content: string | Uint8Array): string {
    const folder = existsSync(MEMORY) ? MEMORY : this.#folder;
    const file = path.join(folder, newName());
    const descriptor = openSync(file, NEW_FILE, 0o600);
    this.#descriptors.push(descriptor);
    // The file is unlinked before its content is written.
    unlinkSync(file);
    writeAll(descriptor, content);
    return `/proc/self/fd/${FIRST_DESCRIPTOR + this.#descriptors.length - 1}`;
  }

  #addFile(content: string | Uint8Array): string {
    const file = path.join(this.#folder, newName());
    const descriptor = openSync(file, NEW_FILE, 0o600);
    this.#files.push(file);
    try {
      writeAll(descriptor, content);
    } finally {
      closeSync(descriptor);
    }
    return file;
  }
}

/** Creates the folder, and removes the files of processes that have ended. */
export async function openSecretFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) {
    const pid = Number(LEFTOVER.exec(name)?.[1] ?? Number.NaN);
    if (!Number.isNaN(pid) && !isAlive(pid)) await rm(path.join(folder, name), { force: true });
  }
}

const newName = () => `secret-${process.pid}-${randomBytes(16).toString('hex')}`;

function writeAll(descriptor: number, content: string | Uint8Array): void {
  const bytes = typeof content === 'string' ? Buffer.from(content, 'utf8') : content;
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
