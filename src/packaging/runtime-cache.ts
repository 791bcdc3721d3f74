import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { RuntimePackage } from './runtimes.ts';

/** Runtimes as npm ships them, kept between builds. */

const DOWNLOAD_MS = 10 * 60_000;
const execute = promisify(execFile);

/** The runtimes of one build, each unpacked once. */
export class UnpackedRuntimes {
  readonly #folder: string;
  readonly #cache: string;
  readonly #unpacked = new Map<string, Promise<string>>();

  /** @param folder  for the unpacked ones, which the caller removes */
  constructor(folder: string, cache = defaultCache()) {
    this.#folder = folder;
    this.#cache = cache;
  }

  /** The path of a runtime's program. Its package is downloaded where the cache does not have it. */
  program(runtime: RuntimePackage): Promise<string> {
    const { spec } = runtime;
    const known = this.#unpacked.get(spec);
    if (known !== undefined) return known;
    const unpacking = unpack(runtime, path.join(this.#folder, spec), path.join(this.#cache, `${spec}.tgz`));
    this.#unpacked.set(spec, unpacking);
    return unpacking;
  }

  /** The license that a runtime comes with. */
  async license(runtime: RuntimePackage): Promise<string> {
    await this.program(runtime);
    return readFile(path.join(this.#folder, runtime.spec, 'LICENSE'), 'utf8');
  }
}

const defaultCache = () => path.join(homedir(), '.cache', 'muster', 'runtimes');

/** The checksum is compared at every build, because the file in the cache may have been changed since. */
async function unpack(runtime: RuntimePackage, folder: string, kept: string): Promise<string> {
  if ((await integrityOf(kept)) !== runtime.integrity) await download(runtime, kept);
  await mkdir(folder, { recursive: true });
  await execute('tar', ['-xzf', kept, '-C', folder, '--strip-components', '1']);
  return path.join(folder, ...runtime.program.split('/'));
}

async function download({ spec, integrity }: RuntimePackage, kept: string): Promise<void> {
  await mkdir(path.dirname(kept), { recursive: true });
  const arriving = await mkdtemp(path.join(path.dirname(kept), 'arriving-'));
  try {
    await npmPack(spec, arriving);
    const [name, ...others] = await readdir(arriving);
    if (name === undefined || others.length > 0) throw new Error(`npm did not download ${spec}.`);
    const file = path.join(arriving, name);
    const found = await integrityOf(file);
    if (found !== integrity) {
      throw new Error(`${spec} is not the pinned package: its checksum is ${found}, and not ${integrity}.`);
    }
    // Another build may have put the same file there meanwhile.
    await rename(file, kept);
  } finally {
    await rm(arriving, { recursive: true, force: true });
  }
}

/** By npm's own command, which knows the registry and the proxy of this machine. */
async function npmPack(spec: string, folder: string): Promise<void> {
  // On Windows, npm is a command file, which only a shell can start. Both words are our own.
  const shell = process.platform === 'win32';
  const words = [
    'pack',
    spec,
    '--silent',
    '--ignore-scripts',
    '--pack-destination',
    shell ? `"${folder}"` : folder,
  ];
  try {
    await execute('npm', words, { timeout: DOWNLOAD_MS, shell, cwd: folder });
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new Error(`npm could not download ${spec}${said === '' ? '.' : `: ${said}`}`, { cause: error });
  }
}

/** `undefined` where there is no such file. */
async function integrityOf(file: string): Promise<string | undefined> {
  const hash = createHash('sha512');
  try {
    for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  return `sha512-${hash.digest('base64')}`;
}
