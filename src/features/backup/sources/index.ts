import type { JobSources } from '../configs/sources.schema.ts';
import { database } from './database.ts';
import { files } from './files.ts';
import { image } from './image.ts';
import { machines } from './machines.ts';
import { mssql } from './mssql.ts';
import { restored } from './restored.ts';
import type { SourceWork } from './source-work.ts';

export type { SourceWork } from './source-work.ts';

/** Every kind of sources, by the `kind` of a configuration or of a job. */
export const SOURCE_WORK: Readonly<Record<JobSources['kind'], SourceWork>> = {
  files,
  image,
  database,
  mssql,
  hyperv: machines('hyperv', 'windows'),
  kvm: machines('kvm', 'linux'),
  restored,
};

// Kinds with the same command, such as the hypervisors, are alike in what is asked of them by their command.
const WORK_OF_COMMAND = new Map<string, SourceWork>(
  Object.values(SOURCE_WORK).map((work) => [work.command, work]),
);

/** Whether the end of a command of this type is the end of a backup job. */
export const isBackupCommand = (type: string): boolean => WORK_OF_COMMAND.has(type);

/** The kind of sources that a command backs up. */
export function sourceOfCommand(type: string): SourceWork {
  const work = WORK_OF_COMMAND.get(type);
  if (work === undefined) throw new Error(`${type} is not the command of a backup`);
  return work;
}

/** The capability that a device needs for each kind. */
export const COMMAND_OF_KIND = Object.fromEntries(
  Object.entries(SOURCE_WORK).map(([kind, { command }]) => [kind, command]),
);
