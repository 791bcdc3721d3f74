import {
  isFinal,
  JobOutput,
  JobsSnapshot,
  type JobsSubscribe,
  JobUpdate,
} from '../../../../src/protocol/index.ts';
import { MusterError } from '../error.ts';
import { Channel } from './channel.ts';
import { type HubConnection, mayConcern, notUnderstood } from './connection.ts';

/** A new state of a job, or lines of its output. `isGap`: output before these lines is missing. */
export type JobNews =
  | { type: 'state'; job: JobUpdate }
  | { type: 'output'; rows: JobOutput['rows']; isGap: boolean };

/** News that are kept for a slow program. */
const KEPT_MAX = 10_000;

/**
 * The open jobs, oldest first, and then each new state of a job. After a lost connection, the jobs that are open then
 * come again.
 */
export async function* watchJobs(
  hub: HubConnection,
  filter: JobsSubscribe,
  signal: AbortSignal | undefined,
): AsyncGenerator<JobUpdate, void> {
  for await (const news of jobNews(hub, filter, signal)) {
    if (news.type === 'state') yield news.job;
  }
}

/** One job with its output, until it ends. */
export async function* followJob(
  hub: HubConnection,
  jobId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<JobNews, void> {
  for await (const news of jobNews(hub, { jobId }, signal)) {
    yield news;
    if (news.type === 'state' && isFinal(news.job.state)) return;
  }
}

async function* jobNews(
  hub: HubConnection,
  filter: JobsSubscribe,
  signal: AbortSignal | undefined,
): AsyncGenerator<JobNews, void> {
  signal?.throwIfAborted();
  const watch = new JobWatch(hub, filter);
  try {
    yield* watch.news.read(signal);
  } finally {
    watch.stop();
  }
}

/** How many watches of a connection have the same filter. The hub knows equal subscriptions once, so the last one ends it. */
const subscribers = new WeakMap<HubConnection, Map<string, number>>();

function count(hub: HubConnection, key: string, more: 1 | -1): number {
  const counts = subscribers.get(hub) ?? new Map<string, number>();
  subscribers.set(hub, counts);
  const left = (counts.get(key) ?? 0) + more;
  if (left > 0) counts.set(key, left);
  else counts.delete(key);
  return left;
}

class JobWatch {
  readonly news = new Channel<JobNews>(KEPT_MAX);
  readonly #hub: HubConnection;
  readonly #filter: JobsSubscribe;
  readonly #stops: (() => void)[];
  /** Jobs of which something came since the subscription was asked for: the snapshot may be older. */
  readonly #heard = new Set<string>();
  #seq: number | undefined;

  constructor(hub: HubConnection, { orgId, deviceId, jobId }: JobsSubscribe) {
    this.#hub = hub;
    this.#filter = lowerCased({ orgId, deviceId, jobId });
    count(hub, this.#key, 1);
    const unfit = (message: unknown) => {
      if (mayConcern(message, 'id', this.#filter.jobId)) this.news.fail(notUnderstood('jobs'));
    };
    this.#stops = [
      hub.on('job:update', JobUpdate, (job) => this.#update(job), unfit),
      hub.on('job:output', JobOutput, (output) => this.#output(output), unfit),
      hub.onEnd((error) => this.news.fail(error)),
      hub.onLive(() => void this.#begin()),
    ];
  }

  get #key(): string {
    return JSON.stringify(this.#filter);
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    if (count(this.#hub, this.#key, -1) === 0) this.#hub.send('jobs:unsubscribe', this.#filter);
  }

  async #begin(): Promise<void> {
    this.#heard.clear();
    try {
      const { jobs } = await this.#hub.ask('jobs:subscribe', this.#filter, JobsSnapshot);
      const { jobId } = this.#filter;
      if (jobId !== undefined && jobs.length === 0 && !this.#heard.has(jobId)) {
        this.news.fail(
          new MusterError(0, { code: 'NOT_FOUND', error: `There is no job ${jobId} that you may see.` }),
        );
      }
      // The newest come first, and are to be read last.
      for (const job of jobs.toReversed()) {
        if (!this.#heard.has(job.id)) this.news.push({ type: 'state', job });
      }
    } catch (error) {
      // The connection is made again, and the subscription with it.
      if (error instanceof MusterError && error.code === 'DISCONNECTED') return;
      this.news.fail(error);
    }
  }

  #update(job: JobUpdate): void {
    const { orgId, deviceId, jobId } = this.#filter;
    if (jobId !== undefined && jobId !== job.id) return;
    if (orgId !== undefined && orgId !== job.orgId) return;
    if (deviceId !== undefined && deviceId !== job.deviceId) return;
    this.#heard.add(job.id);
    this.news.push({ type: 'state', job });
  }

  #output({ id, seq, rows }: JobOutput): void {
    if (id !== this.#filter.jobId) return;
    this.news.push({ type: 'output', rows, isGap: this.#seq !== undefined && seq !== this.#seq + 1 });
    this.#seq = seq;
  }
}

/** As the server writes ids, so that they compare; without what is not given. */
function lowerCased(filter: Record<string, string | undefined>): JobsSubscribe {
  const given = Object.entries(filter).flatMap(([name, id]) =>
    id === undefined ? [] : [[name, id.toLowerCase()] as const],
  );
  return Object.fromEntries(given);
}
