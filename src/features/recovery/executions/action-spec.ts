import { z } from 'zod';
import { VmNetwork } from '../../../protocol/index.ts';
import { RecoveryCheck } from '../plans/target.schema.ts';

const Overwrite = z.enum(['never', 'ifNewer', 'always']);

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
    vmName: z.string(),
    memoryMb: z.number().nullable(),
    cpuCount: z.number().nullable(),
    network: VmNetwork,
  }),
  z.object({ does: z.literal('backup'), configId: z.uuid().nullable(), paths: z.array(z.string()) }),
  z.object({
    does: z.literal('check'),
    check: RecoveryCheck,
    /** Reached by way of its host, at a port that is known when it runs. */
    isOfMachine: z.boolean(),
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
