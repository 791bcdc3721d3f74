import { z } from 'zod';
import type { Caller } from '../../platform/context.ts';
import { type JobsSubscribe, JobUpdate } from '../../protocol/index.ts';

/** A job that has changed, with what decides who may see it. */
export const JobChange = z.object({
  update: JobUpdate,
  partnerId: z.string(),
  /** What a user has to hold beside `devices:read`. */
  permission: z.string().optional(),
});
export type JobChange = z.infer<typeof JobChange>;

/** Rows of one kind of work that have changed, as the database announces them. */
export const LongWorkNotice = z.object({ kind: z.string(), ids: z.array(z.uuid()).max(500) });
export type LongWorkNotice = z.infer<typeof LongWorkNotice>;

/** Work that takes long and is no command, such as a backup. Dashboards are shown it beside the commands. */
export interface LongWork {
  /** The present state of the work. What does not exist is left out. */
  read(notice: LongWorkNotice): Promise<JobChange[]>;
  /** All open work, and what has ended since. */
  since(at: Date): Promise<JobChange[]>;
  /**
   * The open work that the caller may see, newest first, or the one that the filter names, whatever its state. Empty where
   * there is none. Whether the caller may see the organization or the device of the filter has been checked.
   */
  shown(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]>;
}
