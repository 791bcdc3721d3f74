import { invalid } from '../../platform/errors.ts';
import type { Architecture, OperatingSystem, ReleaseName } from './release-name.ts';

/**
 * Reads from the bytes of a file: the programs that it holds with their versions, and the platform of an
 * executable. A file that says nothing, such as a foreign program, is taken for what it is named.
 */

/** How the mark begins that `src/packaging/build-agent.ts` puts into each program. */
const MARK = '/* muster-program ';
const WHOLE_MARK = /^\/\* muster-program ([a-z]{1,20}) ([0-9A-Za-z.+-]{1,50}) \*\//;

/** Where the headers of an executable are. */
const HEAD_BYTES = 4096;
/** Longer than a mark, so that one between two pieces is found. */
const OVERLAP_BYTES = 200;

interface Executable {
  format: 'ELF' | 'PE' | 'Mach-O';
  os: OperatingSystem;
  /** `undefined`: another one, or several. */
  architecture: Architecture | undefined;
}

/** Looks at a file as it passes by, piece after piece. */
export class ProgramScan {
  #head = Buffer.alloc(0);
  #rest = Buffer.alloc(0);
  readonly #versions = new Map<string, string>();

  add(piece: Buffer): void {
    if (this.#head.length < HEAD_BYTES) {
      this.#head = Buffer.concat([this.#head, piece.subarray(0, HEAD_BYTES - this.#head.length)]);
    }
    // Marks are rare, so a piece is copied only if one may begin in it or before it.
    const seam = Buffer.concat([this.#rest, piece.subarray(0, OVERLAP_BYTES)]);
    this.#look(seam);
    this.#look(piece);
    this.#rest = Buffer.concat([this.#rest, piece.subarray(-OVERLAP_BYTES)]).subarray(-OVERLAP_BYTES);
  }

  /** Throws if the file is another one than its name says. */
  assertIs({ component, version, os, architecture }: ReleaseName): void {
    const executable = executableIn(this.#head);
    const refuse = (rule: string, what: string) => {
      throw invalid('body', rule, `The file ${what}. It was not stored.`);
    };
    if (component === 'agent' && executable !== undefined) {
      refuse(
        'must be the script of the agent',
        `is an executable (${executable.format}); the agent is a script`,
      );
    }
    if (executable !== undefined && executable.os !== os) {
      refuse(`must be for ${os}`, `is a program for ${executable.os}, and not for ${os}`);
    }
    if (executable?.architecture !== undefined && executable.architecture !== architecture) {
      refuse(
        `must be for ${architecture}`,
        `is a program for ${executable.architecture}, and not for ${architecture}`,
      );
    }
    if (this.#versions.size === 0) return;
    const found = this.#versions.get(component);
    if (found === undefined) {
      const [holds] = this.#versions.keys();
      refuse(`must be the ${component}`, `is the ${holds}, and not the ${component}`);
    } else if (found !== version) {
      refuse(
        `must have the version ${version}`,
        `is version ${found} of the ${component}, and not ${version}`,
      );
    }
  }

  #look(bytes: Buffer): void {
    for (let at = bytes.indexOf(MARK); at !== -1; at = bytes.indexOf(MARK, at + 1)) {
      const text = bytes.toString('latin1', at, at + OVERLAP_BYTES);
      const [, component, version] = WHOLE_MARK.exec(text) ?? [];
      if (component !== undefined && version !== undefined) this.#versions.set(component, version);
    }
  }
}

const MACHINES: Readonly<Record<Executable['format'], Readonly<Record<number, Architecture>>>> = {
  ELF: { 0x3e: 'x64', 0xb7: 'arm64' },
  PE: { 0x8664: 'x64', 0xaa64: 'arm64' },
  'Mach-O': { 0x01000007: 'x64', 0x0100000c: 'arm64' },
};

function executableIn(head: Buffer): Executable | undefined {
  const isElf = head.length >= 20 && head.readUInt32BE(0) === 0x7f454c46;
  if (isElf) return executable('ELF', 'linux', head.readUInt16LE(18));
  if (head.length >= 64 && head.toString('latin1', 0, 2) === 'MZ') {
    const at = head.readUInt32LE(60);
    const isPe = at + 6 <= head.length && head.toString('latin1', at, at + 4) === 'PE\0\0';
    if (isPe) return executable('PE', 'windows', head.readUInt16LE(at + 4));
  }
  if (head.length < 8) return undefined;
  if (head.readUInt32LE(0) === 0xfeedfacf) return executable('Mach-O', 'macos', head.readUInt32LE(4));
  return undefined;
}

const executable = (format: Executable['format'], os: OperatingSystem, machine: number): Executable => ({
  format,
  os,
  architecture: MACHINES[format][machine],
});
