import { useEffect, useState } from 'react';
import {
  JobOutput,
  JobsSnapshot,
  JobUpdate,
  type Ending,
  exitCodeIn,
  type JobsSubscribe,
} from '../../protocol/index.ts';
import { call, useRefreshOn } from '../api/index.ts';
import { isFinal, isNewer, type KnownJobs, withSnapshot, withUpdate } from './known-jobs.ts';
import { hub } from './socket.ts';

/**
 * How many components hold each subscription. The hub knows equal subscriptions of a connection once, so only the last
 * subscriber ends it.
 */
const subscribers = new Map<string, number>();

/** Subscribes at each connection until the returned function is called. */
function subscribe(key: string, onSnapshot: (snapshot: JobsSnapshot) => void): () => void {
  const message = JSON.parse(key) as JobsSubscribe;
  subscribers.set(key, (subscribers.get(key) ?? 0) + 1);
  const stop = hub.onLive(() => {
    // Without a connection, the next one subscribes anew.
    hub.ask('jobs:subscribe', message, JobsSnapshot).then(onSnapshot, () => undefined);
  });
  return () => {
    stop();
    const left = (subscribers.get(key) ?? 1) - 1;
    if (left > 0) {
      subscribers.set(key, left);
      return;
    }
    subscribers.delete(key);
    if (hub.state.state !== 'live') return;
    void hub.ask('jobs:unsubscribe', message, JobsSnapshot.pick({ ok: true })).catch(() => undefined);
  };
}

/**
 * The jobs of a subscription, newest first: the open ones, and those that have ended since the page was opened. Output is
 * passed to `onOutput`; only a subscription to one job has any.
 */
export function useLiveJobs(
  filter: JobsSubscribe | undefined,
  onOutput?: (output: JobOutput) => void,
): readonly JobUpdate[] {
  const key = filter === undefined ? undefined : JSON.stringify(filter);
  const [jobs, setJobs] = useState<KnownJobs>(new Map());
  useEffect(() => {
    if (key === undefined) return undefined;
    const message = JSON.parse(key) as JobsSubscribe;
    const concerns = (job: { id: string; orgId?: string; deviceId?: string | undefined }) =>
      (message.jobId === undefined || message.jobId === job.id) &&
      (message.orgId === undefined || message.orgId === job.orgId) &&
      (message.deviceId === undefined || message.deviceId === job.deviceId);
    const stops = [
      subscribe(key, (snapshot) => setJobs((known) => withSnapshot(known, snapshot.jobs))),
      hub.on('job:update', JobUpdate, (job) => {
        if (concerns(job)) setJobs((known) => withUpdate(known, job));
      }),
      hub.on('job:output', JobOutput, (output) => {
        if (message.jobId === output.id) onOutput?.(output);
      }),
    ];
    return () => {
      for (const stop of stops) stop();
    };
    // `onOutput` is read when output comes; a new function begins no new subscription.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [key]);
  return [...jobs.values()].sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** The newest update of one of several jobs. */
export interface JobStanding extends Ending {
  message: string | undefined;
  /** When that was so; empty if it was read from the API. */
  at: string;
}

/** Many jobs may end at once; they are shown together. */
const FRAME_MS = 250;
const READS_AT_ONCE = 4;
const ALL_JOBS = '{}';
const NONE: ReadonlyMap<string, JobStanding> = new Map();

/**
 * How each of these jobs stands, all of them until the component leaves. What ended before the subscription began, or
 * while there was no connection, is read from the API.
 */
export function useJobStandings(ids: readonly string[]): ReadonlyMap<string, JobStanding> {
  const key = ids.join(' ');
  const [shown, setShown] = useState<{ key: string; standings: ReadonlyMap<string, JobStanding> }>();
  useEffect(() => {
    if (key === '') return undefined;
    const mine = new Set(key.split(' '));
    const known = new Map<string, JobStanding>();
    let frame: ReturnType<typeof setTimeout> | undefined;
    const watching = new AbortController();
    const { signal } = watching;
    const note = (id: string, standing: JobStanding) => {
      known.set(id, standing);
      frame ??= setTimeout(() => {
        frame = undefined;
        setShown({ key, standings: new Map(known) });
      }, FRAME_MS);
    };
    const noteJob = (job: JobUpdate) => {
      if (!mine.has(job.id)) return;
      const before = known.get(job.id);
      if (before !== undefined && isFinal(before) && !isFinal(job)) return;
      const { state, exitCode, message, at } = job;
      note(job.id, { state, exitCode, message, at });
    };
    const wanted: string[] = [];
    let readers = 0;
    const readLater = (...more: string[]) => {
      wanted.push(...more);
      const needed = Math.min(READS_AT_ONCE, wanted.length);
      for (let reader = readers; reader < needed; reader++) void readThose();
    };
    const readThose = async () => {
      readers++;
      for (let id = wanted.pop(); id !== undefined && !signal.aborted; id = wanted.pop()) {
        const command = await call('GET /commands/{id}', { params: { id } }).catch(() => undefined);
        if (command === undefined || signal.aborted) continue;
        const before = known.get(id);
        // An update that came meanwhile is newer.
        if (before !== undefined && isFinal(before) && !isFinal({ state: command.status })) continue;
        note(id, {
          state: command.status,
          exitCode: exitCodeIn(command.output),
          message: command.error?.message ?? command.reason ?? undefined,
          at: '',
        });
      }
      readers--;
    };
    const stops = [
      hub.on('job:update', JobUpdate, noteJob),
      subscribe(ALL_JOBS, ({ jobs }) => {
        for (const job of jobs) {
          const before = known.get(job.id);
          // An update that came while the answer was on its way may be newer.
          if (before === undefined || !isNewer(before, job)) noteJob(job);
        }
        const open = new Set(jobs.map(({ id }) => id));
        const missing = [...mine].filter((id) => {
          const standing = known.get(id);
          return !open.has(id) && (standing === undefined || !isFinal(standing));
        });
        readLater(...missing);
      }),
    ];
    return () => {
      watching.abort();
      clearTimeout(frame);
      for (const stop of stops) stop();
    };
  }, [key]);
  return shown?.key === key ? shown.standings : NONE;
}

/**
 * The jobs of one kind, by their ids, of one organization or of all. What was read by `refreshes` is read again at each
 * news of them.
 */
export function useLiveWork(
  kind: JobUpdate['kind'],
  orgId: string | undefined,
  refreshes: Parameters<typeof useRefreshOn>[1],
  newsOf: (job: JobUpdate) => string = ({ id, state }) => `${id} ${state}`,
): ReadonlyMap<string, JobUpdate> {
  const jobs = useLiveJobs(orgId === undefined ? {} : { orgId }).filter((job) => job.kind === kind);
  useRefreshOn(jobs.map(newsOf).sort().join(), refreshes);
  return new Map(jobs.map((job) => [job.id, job]));
}
