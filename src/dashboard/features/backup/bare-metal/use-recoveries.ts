import type { JobUpdate } from '../../../../protocol/index.ts';
import { useRefreshOn } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';

export const TOKEN_READS = ['GET /backup/bmr/token', 'GET /backup/bmr/token/{id}'] as const;

/** How far recoveries are, by the ids of their tokens. What else is new of them is read again. */
export function useRecoveries(orgId: string | undefined): ReadonlyMap<string, JobUpdate> {
  const work = useLiveJobs(orgId === undefined ? {} : { orgId }).filter(({ kind }) => kind === 'recovery');
  useRefreshOn(
    work
      .map(({ id, state, phase }) => `${id} ${state} ${phase}`)
      .sort()
      .join(),
    TOKEN_READS,
  );
  return new Map(work.map((job) => [job.id, job]));
}
