import { z } from 'zod';
import { Id, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import {
  CheckpointAction,
  HypervisorKind,
  Machine,
  MachineAction,
  MachineId,
  MachineName,
  MACHINES_MAX,
} from '../../protocol/index.ts';
import type { SourceKind } from '../backup/index.ts';

/** A hypervisor with routes of its own. */
export interface ServedHypervisor {
  /** Also the kind of the configurations that back up its machines. */
  kind: HypervisorKind & SourceKind;
  /** Below `/backup/`. */
  prefix: string;
  /** For people. */
  name: string;
}

export const HYPERV: ServedHypervisor = { kind: 'hyperv', prefix: 'hyperv', name: 'Hyper-V' };
export const KVM: ServedHypervisor = { kind: 'kvm', prefix: 'kvm', name: 'KVM' };

/** Guests of hypervisors, and what can be done with them. */

const flag = () =>
  z
    .enum(['true', 'false'])
    .transform((word) => word === 'true')
    .optional();

export const DeviceParams = z.object({ deviceId: Id });

export const MachineQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  refresh: flag().describe(
    'True: connected devices are asked first, for at most 30 seconds: the named one, or the 20 that were asked longest ago. What a device does not answer stays as it was.',
  ),
});
export type MachineQuery = z.infer<typeof MachineQuery>;

export const DeviceMachineQuery = z.object({
  refresh: flag().describe('True: the device is asked first, for at most 30 seconds.'),
});

export const FoundMachine = z
  .object({
    vmId: z.string(),
    vmName: z.string(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    hypervisor: HypervisorKind,
    generation: z.number().int().nullable(),
    bootMode: Machine.shape.bootMode,
    state: Machine.shape.state,
    vhdPaths: z.array(z.string()),
    disks: Machine.shape.disks,
    memoryMb: z.number().nullable(),
    processorCount: z.number().int().nullable(),
    rctEnabled: z.boolean().nullable().describe('Whether the hypervisor tracks changes; null: not known.'),
    hasPassthroughDisks: z.boolean().describe('Such a machine cannot be exported.'),
    checkpoints: Machine.shape.checkpoints,
    isCut: Machine.shape.isCut,
    listIsCut: z
      .boolean()
      .optional()
      .describe(
        `True: the device has more machines than the ${MACHINES_MAX} that it lists. Machines that it listed before stay.`,
      ),
    lastDiscoveredAt: Timestamp,
  })
  .meta({ id: 'FoundMachine' });
export type FoundMachine = z.infer<typeof FoundMachine>;

export const MachinesOfDevice = z.object({ data: z.array(FoundMachine) });

const whichMachine = {
  deviceId: Id,
  vmName: MachineName.optional().describe('As it was last listed. Names of several machines are refused.'),
  vmId: MachineId.optional(),
};
const isOne = ({ vmName, vmId }: { vmName?: string | undefined; vmId?: string | undefined }) =>
  (vmName === undefined) !== (vmId === undefined);
const ONE_NEEDED = { message: 'needs either vmName or vmId', path: ['vmName'] };

export const NewMachineBackup = z
  .strictObject({
    ...whichMachine,
    consistencyType: z.enum(['application', 'crash']).optional(),
    exportPath: text(4000)
      .optional()
      .describe(
        'A folder of the device into which the machine is exported, and where it stays. Without it, a snapshot is made.',
      ),
    configId: Id.optional().describe(
      'Whose repository takes the snapshot: a configuration for machines. Default: the default one, else the only one.',
    ),
  })
  .refine(isOne, ONE_NEEDED)
  .refine(({ exportPath, configId }) => exportPath === undefined || configId === undefined, {
    message: 'must be left out: an export makes no snapshot',
    path: ['configId'],
  });
export type NewMachineBackup = z.infer<typeof NewMachineBackup>;

export const NewCheckpoint = z
  .strictObject({
    ...whichMachine,
    action: CheckpointAction,
    checkpointName: MachineName.optional(),
    checkpointId: MachineId.optional(),
  })
  .refine(isOne, ONE_NEEDED)
  .superRefine(({ action, checkpointId, checkpointName }, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (action === 'create' && checkpointId !== undefined) {
      refuse('checkpointId', 'must be left out: the hypervisor makes the id');
    }
    if (action !== 'create' && (checkpointId === undefined) === (checkpointName === undefined)) {
      refuse('checkpointId', 'is required, or checkpointName in its place');
    }
  });
export type NewCheckpoint = z.infer<typeof NewCheckpoint>;

export const NewMachineState = z
  .strictObject({ ...whichMachine, state: MachineAction })
  .refine(isOne, ONE_NEEDED);
export type NewMachineState = z.infer<typeof NewMachineState>;

export const NewMachineRestore = z.strictObject({
  snapshotId: Id,
  deviceId: Id.optional().describe(
    'Default: the device that was backed up. Another one of its organization.',
  ),
  machine: MachineName.optional().describe('Its name or id in the snapshot. Default: the only one there.'),
  vmName: MachineName.optional().describe('Its new name. Default: as before.'),
  generateNewId: z.boolean().default(true).describe('False fails if the machine is still there.'),
  targetPath: text(4000)
    .optional()
    .describe('A folder of the device. Default: where the hypervisor keeps new machines.'),
});
export type NewMachineRestore = z.infer<typeof NewMachineRestore>;

export const MachineWork = z
  .object({
    id: z.uuid().describe('On `jobs:subscribe`: that of the backup job or of the command.'),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    type: z.enum(['backup', 'export', 'checkpoint', 'state']),
    backupJobId: z.uuid().nullable(),
    commandId: z.uuid().nullable(),
    vmId: z.string().nullable(),
    vmName: z.string().nullable(),
    status: z.string(),
  })
  .meta({ id: 'MachineWork' });
export type MachineWork = z.infer<typeof MachineWork>;
