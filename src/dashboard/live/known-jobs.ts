import { isFinal as isFinalState, type JobState, type JobUpdate } from '../../protocol/index.ts';

export type KnownJobs = ReadonlyMap<string, JobUpdate>;

/** How many finished jobs stay in sight. */
const KEPT = 200;

export const isFinal = ({ state }: { state: JobState }): boolean => isFinalState(state);

export const withUpdate = (known: KnownJobs, job: JobUpdate): KnownJobs =>
  withoutOldest(new Map(known).set(job.id, job));

/**
 * The response to a subscription. An open job that is missing from it has ended while there was no connection: it is no
 * longer shown. If an update came while the answer was on its way, the update is kept: a job that has ended stays so.
 */
export function withSnapshot(known: KnownJobs, snapshot: readonly JobUpdate[]): KnownJobs {
  const jobs = new Map([...known].filter(([, job]) => isFinal(job)));
  for (const job of snapshot) {
    const before = known.get(job.id);
    jobs.set(job.id, before !== undefined && isNewer(before, job) ? before : job);
  }
  return withoutOldest(jobs);
}

/** Whether what is known of a job is newer than what the answer to a subscription says: an end is, whenever it was. */
export function isNewer(known: Standing, answered: Standing): boolean {
  return isFinal(known) === isFinal(answered) ? known.at > answered.at : isFinal(known);
}

type Standing = Pick<JobUpdate, 'state' | 'at'>;

function withoutOldest(jobs: Map<string, JobUpdate>): KnownJobs {
  const ended = [...jobs.values()].filter(isFinal).sort((a, b) => (a.at < b.at ? -1 : 1));
  for (const job of ended.slice(0, Math.max(0, ended.length - KEPT))) jobs.delete(job.id);
  return jobs;
}
