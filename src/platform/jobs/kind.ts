import { z } from 'zod';
import type { Logger } from '../logger.ts';
import { sealContext, type Sealer } from '../secrets/sealed.ts';
import { type Job, type JobHandler, PermanentJobFailure } from './definition.ts';
import type { ClaimedJob } from './job-store.ts';

/** The column that `npm run rotate-secrets` seals again. */
export const SEALED_JOB_INPUT = { table: 'background_jobs', column: 'sealed_input', id: 'id' };
export const inputContext = (id: string) => sealContext(SEALED_JOB_INPUT.table, SEALED_JOB_INPUT.column, id);

/** What an attempt works with, beside the claimed row. */
export interface AttemptParts {
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
  sealer: Sealer,
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
        input: inputOf(job, claimed, sealer),
        // What an earlier release has saved in another form is of no use: the work begins anew.
        progress: resumes && saved?.success === true ? saved.data : undefined,
        saveProgress: (progress) => saveProgress(progressSchema.parse(progress)),
      });
      return job.result === undefined ? undefined : job.result.parse(result);
    },
  };
}

function inputOf<Input>(job: Pick<Job<Input>, 'input'>, claimed: ClaimedJob, sealer: Sealer): Input {
  const { id, input, sealedInput } = claimed;
  const stored: unknown =
    sealedInput === null ? input : JSON.parse(sealer.open(sealedInput, inputContext(id)).text);
  const parsed = job.input.safeParse(stored);
  if (parsed.success) return parsed.data;
  // Only the paths: the values may be secret.
  const paths = parsed.error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new PermanentJobFailure(`The stored input does not fit this release of the server: ${paths}`);
}
