import { z } from 'zod';
import { Id, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import {
  BootMode,
  CommandProgress,
  HypervisorKind,
  VmDiskFormat,
  VmNetwork,
  VmState,
} from '../../protocol/index.ts';

const VmName = text(200).refine(
  (name) => name.trim() !== '' && !/[\p{Cc}\u2028\u2029]/u.test(name),
  'must be one line without control characters',
);

const MemoryMb = z.number().int().min(512).max(4_194_304);
const CpuCount = z.number().int().min(1).max(255);

const VmSpecs = z.strictObject({ memoryMb: MemoryMb.optional(), cpuCount: CpuCount.optional() });
const MachineChoice = text(255)
  .optional()
  .describe('For a snapshot of several machines: the id or the name of one.');
const DEFAULTS = 'Default: those of the machine that was backed up.';

const wanted = {
  snapshotId: Id.describe('A snapshot of a whole machine, or of machines of KVM.'),
  machine: MachineChoice,
  targetDeviceId: Id.optional().describe(
    'The host, which is a device of the same organization. Default: the device that was backed up.',
  ),
  vmName: VmName,
  network: VmNetwork.optional().describe(
    'Default: a network of its own, from which it reaches nothing, because its original may still run.',
  ),
  targetPath: text(4000)
    .optional()
    .describe('A folder of the host for its disks. Default: one of the agent.'),
};

export const NewVmRestore = z
  .strictObject({
    ...wanted,
    hypervisor: HypervisorKind,
    vmSpecs: VmSpecs.extend({
      diskSizeGb: z
        .number()
        .int()
        .min(1)
        .max(65_536)
        .optional()
        .describe('The first disk grows to this size.'),
    })
      .optional()
      .describe(DEFAULTS),
    bootMode: BootMode.optional().describe(
      'What the caller expects. Another one than that of the machine is refused, because it would not start.',
    ),
    grow: z
      .boolean()
      .optional()
      .describe(
        'With `diskSizeGb`: the last partition of the first disk grows with it, and an ext file system in that. Default: no.',
      ),
    format: VmDiskFormat.default('qcow2').describe(
      'Of the disks. `vhdx`: they are files for Hyper-V in `targetPath`, and no machine is made of them.',
    ),
    start: z.boolean().optional().describe('Default: yes, and no for `vhdx`.'),
  })
  .superRefine(({ format, start, targetPath, grow, vmSpecs }, context) => {
    const refuse = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message });
    if (format === 'vhdx' && start === true) refuse('start', 'must be false for vhdx');
    if (format === 'vhdx' && targetPath === undefined) refuse('targetPath', 'must be given for vhdx');
    if (grow === true && vmSpecs?.diskSizeGb === undefined) refuse('grow', 'needs vmSpecs.diskSizeGb');
  });
export type NewVmRestore = z.infer<typeof NewVmRestore>;

export const NewInstantBoot = z.strictObject({
  ...wanted,
  hypervisor: z.literal('kvm').default('kvm'),
  vmSpecs: VmSpecs.optional().describe(DEFAULTS),
});
export type NewInstantBoot = z.infer<typeof NewInstantBoot>;

export const EstimateQuery = z.strictObject({ snapshotId: Id, machine: MachineChoice });
export type EstimateQuery = z.infer<typeof EstimateQuery>;

export const VmEstimate = z
  .object({
    memoryMb: z.number().int(),
    cpuCount: z.number().int(),
    diskSizeGb: z.number().int().describe('The size of all disks together.'),
    platform: z.enum(['linux', 'windows']).nullable(),
    osVersion: z.string().nullable(),
    bootMode: BootMode.nullable().describe('Null: not known, and started as `bios`.'),
    disks: z.array(z.object({ name: z.string(), sizeBytes: z.number().int() })),
    consistency: z.string(),
    storedBytes: z.number().int().nullable().describe('The bytes that the snapshot contains, as reported.'),
  })
  .meta({ id: 'VmEstimate' });

/** The properties of a new machine: decided once, so that it is started again as it was. */
export const VmSpec = z.object({
  memoryMb: z.number().int(),
  cpuCount: z.number().int(),
  diskSizeGb: z.number().int().nullable(),
  grow: z.boolean().optional(),
  format: VmDiskFormat,
  start: z.boolean(),
  network: VmNetwork,
  targetPath: z.string().nullable(),
  machine: z.string().optional().describe('For a snapshot of several: the one that was asked for.'),
});
export type VmSpec = z.infer<typeof VmSpec>;

/** The report of its host; an older agent may leave parts out. */
export const VmFacts = z.object({
  folder: z.string().optional(),
  console: z.string().nullable().optional(),
  forwards: z.array(z.object({ hostPort: z.number().int(), guestPort: z.number().int() })).optional(),
  accelerator: z.string().optional(),
  warnings: z.array(z.string()).optional(),
  disks: z.array(z.object({ name: z.string(), sizeBytes: z.number(), storedBytes: z.number() })).optional(),
});

const VmRestoreKind = z.enum(['as_vm', 'instant_boot']);

export const VM_RESTORE_STATUSES = [
  'pending',
  'restoring',
  'booting',
  'running',
  'paused',
  'faulty',
  'stopped',
  'unknown',
  'migrating',
  'discarding',
  'completed',
  'discarded',
  'failed',
  'cancelled',
] as const;

export const VmRestore = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    kind: VmRestoreKind,
    status: z
      .enum(VM_RESTORE_STATUSES)
      .describe(
        '`running` to `unknown`: what the machine of an instant boot does. `faulty`: its disk cannot be read or written, and it waits; start it again when the reason is gone. `completed`: it needs its snapshot no more.',
      ),
    snapshotId: z.uuid().nullable(),
    hypervisor: HypervisorKind,
    vmName: z.string(),
    vmState: VmState.nullable().describe('The state of the machine, as its host reported it at `stateAt`.'),
    stateAt: Timestamp.nullable(),
    deviceId: z.uuid().describe('The host.'),
    hostDeviceId: z.uuid(),
    hostDeviceName: z.string(),
    vmSpecs: VmSpec.pick({ memoryMb: true, cpuCount: true, diskSizeGb: true }),
    network: VmNetwork,
    syncProgress: z.number().nullable().describe('Percent of what is copied or restored.'),
    progress: CommandProgress.omit({ id: true, seq: true }).nullable(),
    console: z.string().nullable().describe('A socket on the host that speaks VNC.'),
    forwards: z
      .array(z.object({ hostPort: z.number().int(), guestPort: z.number().int() }))
      .describe('Ports of the machine, and where they are on the loopback address of the host.'),
    folder: z.string().nullable().describe('Where its disks are on the host.'),
    accelerator: z.string().nullable(),
    warnings: z.array(z.string()),
    error: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .describe('The error of the newest command.'),
    commandId: z.uuid().describe('The command that the device has been given last.'),
    expiresAt: Timestamp.describe('A command that the device has not fetched by then fails.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
    startedAt: Timestamp.nullable(),
    completedAt: Timestamp.nullable(),
  })
  .meta({ id: 'VmRestore' });

export const ActiveQuery = PageQuery.extend({ orgId: Id.optional(), deviceId: Id.optional() });
export type ActiveQuery = z.infer<typeof ActiveQuery>;

export const VmRestoreQuery = ActiveQuery.extend({
  deviceId: Id.optional().describe('The host.'),
  kind: VmRestoreKind.optional(),
});
export type VmRestoreQuery = z.infer<typeof VmRestoreQuery>;
