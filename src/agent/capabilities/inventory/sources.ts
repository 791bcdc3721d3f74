import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type OsType, firmwareValue, type Hardware } from '../../../protocol/index.ts';
import { readOutput, findProgram } from '../../os/child-process.ts';
import { osType } from '../../os/machine.ts';
import type { Reading } from '../../core/plain-text.ts';

/** The files and programs that an inventory is read from. A port, so that tests can replay the output of other systems. */
export interface Sources {
  readonly os: OsType;
  /** `undefined` if the file does not exist, or this user may not read it. */
  file(path: string): Promise<string | undefined>;
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

/** Busybox has commands with the same names, such as `rpm`, without these options. */
async function isApplet(command: string): Promise<boolean> {
  const program = await realpath(command).catch(() => command);
  return /^(busybox|toybox)/.test(path.basename(program));
}

/** Facts about a system that Node cannot read on every platform. */
interface Collected {
  hardware: Hardware;
  /** The interface of the default route. */
  primaryInterface: string | undefined;
  lastUser: string | undefined;
  software: FoundSoftware[] | undefined;
}

export interface FoundSoftware {
  name: string;
  version?: string | undefined;
  publisher?: string | undefined;
  /** The package manager or list that contains it. */
  source?: string | undefined;
  /** In ms since 1970. */
  installedAt?: number | undefined;
}

/**
 * Reads each source by itself; those that fail are noted in `reading`.
 * @param options.software  false for the facts of an enrollment, which must not take long
 */
export type Collector = (
  sources: Sources,
  options: { software: boolean; reading?: Reading },
) => Promise<Collected>;

/** A value that firmware reports, or `undefined` if it is a placeholder. */
export function cleanDmi(text: string | null | undefined): string | undefined {
  return nonEmpty(firmwareValue(text));
}

/** The trimmed text, or `undefined` if it is empty or a mark for an empty value. */
export function nonEmpty(text: string | null | undefined): string | undefined {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' || trimmed === '-' || trimmed === '(none)' ? undefined : trimmed;
}

/** The user of the newest session in the output of `last`. */
export function lastUserOf(output: string): string | undefined {
  const name = /^(?!reboot\b|shutdown\b|runlevel\b|wtmp\b|btmp\b|_mbsetupuser\b)(\S+) +\S/m.exec(output)?.[1];
  return nonEmpty(name);
}
