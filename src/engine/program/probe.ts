import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { EngineError } from '../engine-error.ts';
import {
  type Capabilities,
  capabilitiesOf,
  type EngineVersion,
  formatVersion,
  isAtLeast,
  OLDEST_VERSION,
  parseEngineVersion,
} from './capabilities.ts';
import { findOnPath, isProgram } from './find-engine.ts';

export interface EngineProgram {
  path: string;
  version: EngineVersion;
  capabilities: Capabilities;
  /** The program after the programs that lower its priority, where the machine has them. */
  command: readonly [string, ...string[]];
}

export interface ProbeOptions {
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

/** The same again and again: restic is started only where its file is another one than the last time. */
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

/** From the lowest priority to the usual one. Some systems have these programs without these options. */
async function priorityPrefixes(searchPath: string): Promise<string[][]> {
  if (process.platform === 'win32') return [[]];
  const nice = await findOnPath('nice', searchPath);
  const ionice = await findOnPath('ionice', searchPath);
  const lower = nice === undefined ? [] : [nice, '-n', '10'];
  // Best effort, last in line; `-t`: a machine that does not allow it runs the program anyway.
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
      // Nothing of this process's environment.
      env: {},
    });
    return parseEngineVersion(stdout);
  } catch {
    return undefined;
  }
}
