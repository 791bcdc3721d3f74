import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { mkdir, stat, access } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { EngineError } from './engine-error.ts';
import { openSecretFolder, type SecretPlace, usualSecretPlace } from './process/secret-files.ts';

/** restic on this machine, ready to run. */
export interface Engine {
  readonly program: EngineProgram;
  readonly host: HostEnvironment;
  readonly cacheFolder: string;
  readonly secretFolder: string;
  readonly secretPlace: SecretPlace;
  /** How long restic has after SIGINT to remove its locks, before it is killed. */
  readonly killAfterMs: number;
  /** How long a backup retries a destination that accepts nothing. */
  readonly giveUpAfterMs: number;
}

export interface EngineOptions {
  /** A private folder for restic's cache and, outside Linux, for secrets. */
  folder: string;
  host: HostEnvironment;
  secretPlace?: SecretPlace;
  killAfterMs?: number;
  giveUpAfterMs?: number;
}

const KILL_AFTER_MS = 30_000;
const GIVE_UP_AFTER_MS = 10 * 60_000;

export async function openEngine(program: EngineProgram, options: EngineOptions): Promise<Engine> {
  const { folder, host, secretPlace = usualSecretPlace() } = options;
  const { killAfterMs = KILL_AFTER_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = options;
  const cacheFolder = path.join(folder, 'cache');
  const secretFolder = path.join(folder, 'secrets');
  await mkdir(cacheFolder, { recursive: true, mode: 0o700 });
  await openSecretFolder(secretFolder);
  return { program, host, cacheFolder, secretFolder, secretPlace, killAfterMs, giveUpAfterMs };
}

/** The path of a program on the search path. Relative folders are skipped: they depend on the working directory. */
async function findOnPath(name: string, searchPath: string): Promise<string | undefined> {
  const fileName = process.platform === 'win32' ? `${name}.exe` : name;
  for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
    const file = path.join(folder, fileName);
    if (await isProgram(file)) return file;
  }
  return undefined;
}

/** Whether restic is on the search path. It is not started, so this is cheap. */
export const isEngineThere = async (searchPath = ''): Promise<boolean> =>
  (await findOnPath('restic', searchPath)) !== undefined;

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

/** The features of each restic version. The engine works from 0.14.0 on; later features are looked up here. */

interface EngineVersion {
  major: number;
  minor: number;
  patch: number;
}

export const OLDEST_VERSION: EngineVersion = { major: 0, minor: 14, patch: 0 };

/** The first version with each feature, from restic's changelog. */
const SINCE = {
  /** `restore` keeps the holes of sparse files. */
  sparseRestore: '0.15.0',
  /** `restore` prints its progress as JSON. */
  restoreJson: '0.16.0',
  /** `restore` into the folder of an interrupted one fetches only what is missing. */
  restoreContinues: '0.17.0',
  /** `repair index` in place of `rebuild-index`. */
  repairCommand: '0.16.0',
  /** A locked repository is tried again for some time. */
  retryLock: '0.16.0',
  /** `check` prints JSON. */
  checkJson: '0.18.0',
} as const;

type Capability = keyof typeof SINCE;
type Capabilities = Readonly<Record<Capability, boolean>>;

/** Reads what `restic version` prints. `undefined` if this is not restic. */
export function parseEngineVersion(output: string): EngineVersion | undefined {
  const [, major, minor, patch] =
    /^restic v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})/m.exec(output.slice(0, 1000)) ?? [];
  if (major === undefined || minor === undefined || patch === undefined) return undefined;
  return { major: Number(major), minor: Number(minor), patch: Number(patch) };
}

const formatVersion = ({ major, minor, patch }: EngineVersion) => `${major}.${minor}.${patch}`;

export function isAtLeast(version: EngineVersion, oldest: EngineVersion): boolean {
  return (version.major - oldest.major || version.minor - oldest.minor || version.patch - oldest.patch) >= 0;
}

export function capabilitiesOf(version: EngineVersion): Capabilities {
  const has = (capability: Capability) => {
    const since = parseEngineVersion(`restic ${SINCE[capability]}`);
    return since !== undefined && isAtLeast(version, since);
  };
  return {
    sparseRestore: has('sparseRestore'),
    restoreJson: has('restoreJson'),
    restoreContinues: has('restoreContinues'),
    repairCommand: has('repairCommand'),
    retryLock: has('retryLock'),
    checkJson: has('checkJson'),
  };
}

export interface EngineProgram {
  path: string;
  version: EngineVersion;
  capabilities: Capabilities;
  /** The command line with programs that lower the priority, if the machine has them. */
  command: readonly [string, ...string[]];
}

interface ProbeOptions {
  /** An absolute path. Without it, restic is looked for on the search path. */
  program?: string | undefined;
  /** The value of PATH. */
  searchPath?: string | undefined;
}

const run = promisify(execFile);
const PROBE_TIMEOUT_MS = 15_000;
const PROBE_MAX_BYTES = 64 * 1024;

/** Finds restic and reads its version. Throws ENGINE_MISSING and ENGINE_TOO_OLD. */
export async function probeEngine(options: ProbeOptions = {}): Promise<EngineProgram> {
  const { program, searchPath = '' } = options;
  return readProgram(await locate(program, searchPath), searchPath);
}

/** Caches the result: restic is started only if its file has changed since the last call. */
export class EngineProbe {
  #last: { mark: string; program: EngineProgram } | undefined;

  async find(options: ProbeOptions): Promise<EngineProgram> {
    const { program, searchPath = '' } = options;
    const found = await locate(program, searchPath);
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(found, { bigint: true });
    const mark = [found, dev, ino, size, mtimeNs, ctimeNs].join(' ');
    if (this.#last?.mark !== mark) this.#last = { mark, program: await readProgram(found, searchPath) };
    return this.#last.program;
  }
}

async function readProgram(found: string, searchPath: string): Promise<EngineProgram> {
  for (const [first, ...rest] of await priorityPrefixes(searchPath)) {
    const command: EngineProgram['command'] = first === undefined ? [found] : [first, ...rest, found];
    const version = await readVersion(command);
    if (version === undefined) continue;
    if (!isAtLeast(version, OLDEST_VERSION)) {
      throw new EngineError('ENGINE_TOO_OLD', {
        message: `restic ${formatVersion(version)} is too old; version ${formatVersion(OLDEST_VERSION)} or later is needed.`,
      });
    }
    return { path: found, version, capabilities: capabilitiesOf(version), command };
  }
  throw new EngineError('ENGINE_MISSING', { detail: `${found} is not restic, or cannot be started.` });
}

async function locate(program: string | undefined, searchPath: string): Promise<string> {
  if (program === undefined) {
    const found = await findOnPath('restic', searchPath);
    if (found === undefined) throw new EngineError('ENGINE_MISSING');
    return found;
  }
  if (!path.isAbsolute(program) || !(await isProgram(program))) {
    throw new EngineError('ENGINE_MISSING', { detail: `${program} is not a program with an absolute path.` });
  }
  return program;
}

/** From the lowest priority to the default. Some systems have these programs without these options. */
async function priorityPrefixes(searchPath: string): Promise<string[][]> {
  if (process.platform === 'win32') return [[]];
  const nice = await findOnPath('nice', searchPath);
  const ionice = await findOnPath('ionice', searchPath);
  const lower = nice === undefined ? [] : [nice, '-n', '10'];
  // Best effort, lowest priority; `-t`: if that is not allowed, the program runs anyway.
  const lowerDisk = ionice === undefined ? [] : [ionice, '-t', '-c', '2', '-n', '7'];
  return [[...lower, ...lowerDisk], lower, []];
}

async function readVersion(command: readonly string[]): Promise<EngineVersion | undefined> {
  const [file = '', ...args] = command;
  try {
    const { stdout } = await run(file, [...args, 'version'], {
      timeout: PROBE_TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: PROBE_MAX_BYTES,
      windowsHide: true,
      // Does not inherit the environment of this process.
      env: {},
    });
    return parseEngineVersion(stdout);
  } catch {
    return undefined;
  }
}

/**
 * The variables that restic inherits. No other variable is passed on: restic follows `HTTP_PROXY`, and `RESTIC_*` and
 * `AWS_*` of the machine would change its behaviour.
 */
interface HostEnvironment {
  PATH?: string | undefined;
  /** Windows: programs need these two to find the network and the temporary folder. */
  SystemRoot?: string | undefined;
  TEMP?: string | undefined;
}

interface EnvironmentInput {
  host: HostEnvironment;
  cacheFolder: string;
  /** A file with the credentials of an S3 destination. */
  credentialsFile?: string | undefined;
  /** How many processors restic may use. */
  processors?: number | undefined;
  /** The address of a proxy, for encrypted connections. */
  proxy?: string | undefined;
}

export function engineEnvironment(input: EnvironmentInput): Record<string, string> {
  const { host, cacheFolder, credentialsFile, processors, proxy } = input;
  const environment: Record<string, string | undefined> = {
    PATH: absoluteFolders(host.PATH),
    RESTIC_CACHE_DIR: cacheFolder,
    RESTIC_PROGRESS_FPS: '2',
    LC_ALL: 'C',
    ...(process.platform === 'win32' ? { SystemRoot: host.SystemRoot, TEMP: host.TEMP, TMP: host.TEMP } : {}),
    AWS_SHARED_CREDENTIALS_FILE: credentialsFile,
    HTTPS_PROXY: proxy,
    GOMAXPROCS: processors === undefined ? undefined : String(processors),
  };
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

const absoluteFolders = (searchPath = '') =>
  searchPath
    .split(path.delimiter)
    .filter((entry) => path.isAbsolute(entry))
    .join(path.delimiter);
