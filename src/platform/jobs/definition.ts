import type { z } from 'zod';
import type { Logger } from '../logger.ts';
import type { BackOff } from './back-off.ts';

/**
 * A kind of background work. Its input, result and progress pass through the database as JSON, so their schemas describe
 * plain JSON values.
 */
export interface Job<Input = unknown, Result = unknown, Progress = unknown> {
  /** Unique, and kept for ever: jobs that wait are found by it. As in `mail.send`. */
  name: string;
  input: z.ZodType<Input>;
  result?: z.ZodType<Result>;
  progress?: z.ZodType<Progress>;
  /** The input holds secrets or personal data: it is stored sealed, and removed when the job ends. */
  isSealed: boolean;
  /** How often the work is begun at most, counting the runs that a killed process left unfinished. */
  attempts: number;
  backOff: BackOff;
  /** How many of these one process runs at a time. */
  concurrency: number;
  /** How many of these run at a time in the whole cluster. */
  inCluster: number;
  /**
   * A run goes on from the progress that the run before it has saved. Such a run is aborted at once when its server
   * stops; all others are first given a moment to end by themselves.
   */
  resumes: boolean;
}

type Given<Input, Result, Progress> = Pick<Job<Input, Result, Progress>, 'name' | 'input'> &
  Partial<Omit<Job<Input, Result, Progress>, 'name' | 'input'>>;

const UNLIMITED = 1_000_000;

export function defineJob<Input, Result = unknown, Progress = unknown>(
  given: Given<Input, Result, Progress>,
): Job<Input, Result, Progress> {
  return {
    isSealed: false,
    attempts: 5,
    backOff: { firstMs: 5000, longestMs: 600_000 },
    concurrency: 1,
    inCluster: UNLIMITED,
    resumes: false,
    ...given,
  };
}

/** One attempt at a job, as its handler sees it. */
export interface JobRun<Input = unknown, Progress = unknown> {
  id: string;
  input: Input;
  /** 1 for the first. */
  attempt: number;
  /** For whom the work is done; null: for the platform. */
  partnerId: string | null;
  /** Aborted when the job is cancelled, when its lease is lost, and when the server stops. */
  signal: AbortSignal;
  log: Logger;
  /** What an earlier attempt has saved, where the job resumes. */
  progress: Progress | undefined;
  saveProgress: (progress: Progress) => Promise<void>;
}

export type JobHandler<Input, Result, Progress> = (run: JobRun<Input, Progress>) => Promise<Result>;

/** Thrown by a handler when trying again cannot help. */
export class PermanentJobFailure extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PermanentJobFailure';
  }
}
