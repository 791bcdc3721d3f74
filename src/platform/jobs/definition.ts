import { z } from 'zod';
import type { Logger } from '../logger.ts';
import { sealContext, type Encryptor } from '../secrets/sealed.ts';
import type { ClaimedJob } from './job.queries.ts';

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
export const DEFAULT_BACK_OFF: BackOff = { firstMs: 5000, longestMs: 600_000 };

export function defineJob<Input, Result = unknown, Progress = unknown>(
  given: Given<Input, Result, Progress>,
): Job<Input, Result, Progress> {
  return {
    isSealed: false,
    attempts: 5,
    backOff: DEFAULT_BACK_OFF,
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
  /** The number of this attempt; the first one is 1. */
  attempt: number;
  /** The partner for which the work is done; null: for the platform. */
  partnerId: string | null;
  /** Aborted when the job is cancelled, when its lease is lost, and when the server stops. */
  signal: AbortSignal;
  log: Logger;
  /** The state that an earlier attempt has saved, if the job resumes. */
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

/** The column that `npm run rotate-secrets` seals again. */
export const SEALED_JOB_INPUT = { table: 'background_jobs', column: 'sealed_input', id: 'id' };
export const inputContext = (id: string) => sealContext(SEALED_JOB_INPUT.table, SEALED_JOB_INPUT.column, id);

/** The parameters of an attempt, beside the claimed row. */
interface AttemptParts {
  signal: AbortSignal;
  log: Logger;
  saveProgress: (progress: unknown) => Promise<void>;
}

/** A job together with its handler, so that the runner needs to know nothing about their types. */
export interface Kind extends Pick<Job, 'name' | 'backOff' | 'concurrency' | 'inCluster' | 'resumes'> {
  /** Runs the handler once. Answers its result, checked. */
  attempt(claimed: ClaimedJob, parts: AttemptParts): Promise<unknown>;
}

export function kindOf<Input, Result, Progress>(
  job: Job<Input, Result, Progress>,
  handler: JobHandler<Input, Result, Progress>,
  encryptor: Encryptor,
): Kind {
  const { name, backOff, concurrency, inCluster, resumes } = job;
  const progressSchema = job.progress ?? z.never();
  return {
    name,
    backOff,
    concurrency,
    inCluster,
    resumes,
    async attempt(claimed, { signal, log, saveProgress }) {
      const { id, attempt, partnerId } = claimed;
      const saved = job.progress?.safeParse(claimed.progress);
      const result = await handler({
        id,
        attempt,
        partnerId,
        signal,
        log,
        input: inputOf(job, claimed, encryptor),
        // A state that an earlier release has saved in another form cannot be used: the work begins anew.
        progress: resumes && saved?.success === true ? saved.data : undefined,
        saveProgress: (progress) => saveProgress(progressSchema.parse(progress)),
      });
      return job.result === undefined ? undefined : job.result.parse(result);
    },
  };
}

function inputOf<Input>(job: Pick<Job<Input>, 'input'>, claimed: ClaimedJob, encryptor: Encryptor): Input {
  const { id, input, sealedInput } = claimed;
  const stored: unknown =
    sealedInput === null ? input : JSON.parse(encryptor.open(sealedInput, inputContext(id)).text);
  const parsed = job.input.safeParse(stored);
  if (parsed.success) return parsed.data;
  // Only the paths: the values may be secret.
  const paths = parsed.error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new PermanentJobFailure(`The stored input does not fit this release of the server: ${paths}`);
}

export interface BackOff {
  /** Before the second attempt. The wait doubles with each further attempt, up to `longestMs`. */
  firstMs: number;
  longestMs: number;
}

/**
 * How long to wait after the given attempt has failed. Up to a fifth is taken away at random, so that jobs that failed
 * together do not come back together.
 * @param random  from 0 to 1
 */
export function retryDelayMs(attempt: number, { firstMs, longestMs }: BackOff, random: number): number {
  const fullMs = Math.min(firstMs * 2 ** (attempt - 1), longestMs);
  return Math.round(fullMs * (1 - random / 5));
}
