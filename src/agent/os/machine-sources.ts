import { readFileSync } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { OsType } from '../../protocol/index.ts';
import { findProgram, readOutput } from './child-process.ts';
import { osType } from './machine.ts';

/** The files and programs that a machine's facts and figures are read from. A port, so that tests can replay the output of other systems. */
export interface Sources {
  readonly os: OsType;
  /** `undefined` if the file does not exist, or this user may not read it. */
  file(path: string): Promise<string | undefined>;
  /** The same for thousands of small files that are in memory, as those of `/proc` are: a sixth of the processor time. */
  memoryFiles(paths: readonly string[]): Promise<(string | undefined)[]>;
  /** The names in a folder; empty if it does not exist. */
  names(folder: string): Promise<readonly string[]>;
  /** When each file of the folder was last written, in ms since 1970. Empty if the folder does not exist. */
  written(folder: string): Promise<ReadonlyMap<string, number>>;
  /** `undefined` if the program does not exist, or is an applet of busybox. Throws if it fails, which must not look like an empty list. */
  output(program: string, args: readonly string[], timeoutMs?: number): Promise<string | undefined>;
  interfaces(): NodeJS.Dict<os.NetworkInterfaceInfo[]>;
}

const PROGRAM_MS = 30_000;
/** Ten thousand packages are about two million characters. */
const OUTPUT_MAX = 20_000_000;

export function machineSources(signal?: AbortSignal): Sources {
  return {
    os: osType(),
    async file(name) {
      try {
        return await readFile(name, 'utf8');
      } catch {
        return undefined;
      }
    },
    memoryFiles: readInTurns,
    names: (folder) => readdir(folder).catch(() => []),
    async written(folder) {
      const names = await readdir(folder).catch(() => []);
      const times = await Promise.all(
        names.map(async (name) => {
          const found = await stat(`${folder}/${name}`).catch(() => undefined);
          return found === undefined ? [] : [[name, found.mtimeMs] as const];
        }),
      );
      return new Map(times.flat());
    },
    async output(program, args, timeoutMs = PROGRAM_MS) {
      const command = await findProgram([program]);
      if (command === undefined || (await isApplet(command))) return undefined;
      const bounds = { timeoutMs, maxLength: OUTPUT_MAX, ...(signal === undefined ? {} : { signal }) };
      return readOutput(command, args, bounds);
    },
    interfaces: () => os.networkInterfaces(),
  };
}

/** So many files are read before other work has its turn. */
const READ_AT_ONCE = 50;

async function readInTurns(paths: readonly string[]): Promise<(string | undefined)[]> {
  const contents: (string | undefined)[] = [];
  for (const [at, name] of paths.entries()) {
    if (at > 0 && at % READ_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    try {
      contents.push(readFileSync(name, 'utf8'));
    } catch {
      contents.push(undefined);
    }
  }
  return contents;
}

/** Busybox has commands with the same names, such as `rpm`, without these options. */
async function isApplet(command: string): Promise<boolean> {
  const program = await realpath(command).catch(() => command);
  return /^(busybox|toybox)/.test(path.basename(program));
}

/** The output of a script; `undefined` without PowerShell. */
export async function runPowerShell(
  sources: Sources,
  script: string,
  timeoutMs: number,
): Promise<string | undefined> {
  const encoded = Buffer.from(script, 'utf16le').toString('base64');
  const args = ['-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass'];
  return sources.output('powershell', [...args, '-EncodedCommand', encoded], timeoutMs);
}
