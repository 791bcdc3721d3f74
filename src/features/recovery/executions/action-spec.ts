import { z } from 'zod';
import { ImageDetails, VmNetwork } from '../../../protocol/index.ts';
import { RecoveryCheck } from '../plans/target.schema.ts';

const Overwrite = z.enum(['never', 'ifNewer', 'always']);

const GuestPlace = z.object({ image: ImageDetails, imagePath: z.string() });
export type GuestPlace = z.infer<typeof GuestPlace>;

/** What an action does, as it is stored: everything is decided when the execution begins. */
export const ActionSpec = z.discriminatedUnion('does', [
  z.object({
    does: z.literal('files'),
    /** Null: there was no snapshot, or `madeBy` makes it. */
    snapshotId: z.uuid().nullable(),
    /** The backup of this execution whose snapshot is restored. */
    madeBy: z.uuid().nullable(),
    selectedPaths: z.array(z.string()).nullable(),
    /** Null: a fresh folder of the agent. */
    targetPath: z.string().nullable(),
    fromPath: z.string().nullable(),
    overwrite: Overwrite,
    /** One of the paths of a backup, which a device need not have: a snapshot without it is no failure. */
    isOptional: z.boolean(),
  }),
  z.object({
    does: z.literal('machine'),
    kind: z.enum(['as_vm', 'instant_boot']),
    snapshotId: z.uuid().nullable(),
    /** As the plan names it. */
    machine: z.string().nullable().default(null),
    /** Of a snapshot of guests: which one. Null: the snapshot is of one machine, which its device has described. */
    machineId: z.string().nullable().default(null),
    /** What was read from the store of that guest, before it is given to its device. */
    guest: GuestPlace.nullable().default(null),
    /** Why it cannot be started, as it was found out when the execution began. */
    refusal: z.object({ code: z.string(), message: z.string() }).nullable().default(null),
    vmName: z.string(),
    memoryMb: z.number().nullable(),
    cpuCount: z.number().nullable(),
    network: VmNetwork,
  }),
  z.object({ does: z.literal('backup'), configId: z.uuid().nullable(), paths: z.array(z.string()) }),
  z.object({ does: z.literal('save'), configId: z.uuid().nullable(), vmRestoreId: z.uuid().nullable() }),
  z.object({
    does: z.literal('check'),
    check: RecoveryCheck,
    /** Reached by way of its host, at a port that is known when it runs. */
    isOfMachine: z.boolean(),
    /** Of a script: the version that is run. Null: the execution began before versions were kept. */
    scriptSha256: z.string().nullable().default(null),
  }),
  z.object({ does: z.literal('discard') }),
]);
export type ActionSpec = z.infer<typeof ActionSpec>;

/** What is remembered of an action that has succeeded, for those behind it. */
export const ActionResult = z.object({
  folder: z.string().nullable().optional(),
  forwards: z.array(z.object({ hostPort: z.number(), guestPort: z.number() })).optional(),
  snapshotId: z.uuid().optional(),
  /** The snapshot does not have what was to be restored. */
  isMissing: z.boolean().optional(),
});
export type ActionResult = z.infer<typeof ActionResult>;
