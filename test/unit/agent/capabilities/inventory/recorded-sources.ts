import type { Sources } from '../../../../../src/agent/os/machine-sources.ts';
import type { OsType } from '../../../../../src/protocol/index.ts';

/** A machine of which only what is written here is known. */
export interface Recorded {
  os: OsType;
  files?: Record<string, string>;
  written?: Record<string, Record<string, number>>;
  /** By program; an error is what the program fails with. */
  outputs?: Record<string, string | Error>;
  interfaces?: ReturnType<Sources['interfaces']>;
}

export function recordedSources(machine: Recorded): Sources & { calls: [string, readonly string[]][] } {
  const calls: [string, readonly string[]][] = [];
  return {
    os: machine.os,
    calls,
    file: async (path) => machine.files?.[path],
    memoryFiles: async (paths) => paths.map((path) => machine.files?.[path]),
    names: async (folder) => Object.keys(machine.written?.[folder] ?? {}),
    written: async (folder) => new Map(Object.entries(machine.written?.[folder] ?? {})),
    async output(program, args) {
      calls.push([program, args]);
      const output = machine.outputs?.[program];
      if (output instanceof Error) throw output;
      return output;
    },
    interfaces: () => machine.interfaces ?? {},
  };
}
