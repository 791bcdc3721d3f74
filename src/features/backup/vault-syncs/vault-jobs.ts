import { z } from 'zod';
import { defineJob } from '../../../platform/jobs/definition.ts';

/** Adds the syncs that are due, and gives those whose turn has come to their devices. */
export const HAND_OVER = defineJob({
  name: 'backup.hand-over-vaults',
  input: z.object({}),
  attempts: 3,
  inCluster: 1,
});

/** Makes the repository of a vault in the backup store. */
export const PREPARE = defineJob({
  name: 'backup.prepare-vault',
  input: z.object({ syncId: z.uuid() }),
  attempts: 4,
  concurrency: 2,
});

/** Added by a trigger of the database with the end of a command. */
export const SETTLE = defineJob({
  name: 'backup.settle-vault-sync',
  input: z.object({ syncId: z.uuid(), commandId: z.uuid() }),
  attempts: 20,
  concurrency: 2,
});
