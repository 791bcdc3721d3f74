import { COMMANDS, type HypervisorKind, type OsType } from '../../../protocol/index.ts';
import type { SourceKind } from '../configs/sources.schema.ts';
import { defineSource, type SourceWork } from './source-work.ts';

const Machines = COMMANDS['backup.machine'].payload.pick({ machines: true });

/** Guests of a hypervisor, which runs on devices with one operating system. */
export const machines = (hypervisor: HypervisorKind & SourceKind, system: OsType): SourceWork =>
  defineSource(hypervisor, {
    command: 'backup.machine',
    backupType: 'system_image',
    systems: () => [system],
    refusal: (osType) => `There are no machines of ${hypervisor} on ${osType}.`,
    toCommand: (_tx, { sources, shared }) => ({
      type: 'backup.machine',
      payload: { ...shared, hypervisor, machines: sources.machines, consistency: sources.consistency },
    }),
    pathsOf: (payload) => {
      const { machines: wanted } = Machines.catch({ machines: 'all' }).parse(payload);
      return wanted === 'all' ? ['all machines'] : wanted;
    },
  });
