import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import { type ClusterEvents, topic } from '../../platform/cluster/cluster-events.ts';
import { isFinal, JobOutput } from '../../protocol/index.ts';
import { JobChange } from '../ports/long-work.ts';
import type { JobAudience } from './job-audience.ts';

/** Progress of one job is sent at most four times a second. Its end is sent at once. */
const INTERVAL_MS = 250;
const JOBS_PER_MESSAGE = 100;

/** Jobs that have changed on a node, for the dashboards of the others. */
const JOBS_CHANGED = topic('jobs', z.object({ jobs: z.array(JobChange) }));
const JOB_OUTPUT = topic('job_output', z.object({ deviceId: z.string(), output: JobOutput }));

/**
 * Shows changes of commands to the clients that may see them, on every node. Of several changes within the interval the
 * latest is sent. An announcement that is lost is not repeated: clients of other nodes see the next state.
 */
export class JobFeed {
  readonly #audience: JobAudience;
  readonly #events: Pick<ClusterEvents, 'broadcast'>;
  /** Jobs that were sent within the current interval. Their later changes wait. */
  #sent = new Set<string>();
  #waiting = new Map<string, JobChange>();
  #timer: Timer | undefined;

  constructor(audience: JobAudience, events: Pick<ClusterEvents, 'broadcast' | 'subscribe'>) {
    this.#audience = audience;
    this.#events = events;
    events.subscribe(JOBS_CHANGED, ({ jobs }) => {
      for (const job of jobs) audience.changed(job);
    });
    events.subscribe(JOB_OUTPUT, ({ deviceId, output }) => audience.output(deviceId, output));
  }

  changed(jobs: readonly JobChange[]): void {
    const now: JobChange[] = [];
    for (const job of jobs) {
      const { id, state } = job.update;
      if (this.#sent.has(id) && !isFinal(state)) {
        this.#waiting.set(id, job);
        continue;
      }
      this.#waiting.delete(id);
      this.#sent.add(id);
      this.#audience.changed(job);
      now.push(job);
    }
    while (now.length > 0) this.#events.broadcast(JOBS_CHANGED, { jobs: now.splice(0, JOBS_PER_MESSAGE) });
    if (this.#sent.size > 0) this.#timer ??= clock.setTimeout(() => this.#nextInterval(), INTERVAL_MS);
  }

  /** @param deviceId  the sender: output for a job of another device reaches nobody */
  output(deviceId: string, output: JobOutput): void {
    this.#audience.output(deviceId, output);
    this.#events.broadcast(JOB_OUTPUT, { deviceId, output });
  }

  /** Shows now what waits for the next interval. */
  settle(): void {
    clock.clear(this.#timer);
    this.#nextInterval();
  }

  close(): void {
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#waiting.clear();
    this.#sent.clear();
  }

  #nextInterval(): void {
    this.#timer = undefined;
    this.#sent.clear();
    const waiting = [...this.#waiting.values()];
    this.changed(waiting);
  }
}
