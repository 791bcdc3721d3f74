import { COMMANDS, OsType } from '../../../protocol/index.ts';
import { defineSource } from './source-work.ts';

const Paths = COMMANDS['backup.run'].payload.pick({ paths: true });

export const files = defineSource('files', {
  command: 'backup.run',
  backupType: 'file',
  systems: ({ paths }) => OsType.options.filter((system) => paths[system] !== undefined),
  refusal: (osType) => `The configuration names no paths for ${osType}.`,
  toCommand: (_tx, { sources, device, shared }) => ({
    type: 'backup.run',
    payload: {
      ...shared,
      paths: sources.paths[device.osType] ?? [],
      excludes: sources.excludes ?? [],
      oneFileSystem: sources.oneFileSystem ?? false,
    },
  }),
  pathsOf: (payload) => Paths.catch({ paths: [] }).parse(payload).paths,
});
