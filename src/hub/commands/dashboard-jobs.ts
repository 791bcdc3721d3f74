import { AppError, notFound } from '../../platform/errors.ts';
import type { Caller } from '../../platform/context.ts';
import type { JobsSnapshot, JobsSubscribe, JobUpdate } from '../../protocol/index.ts';
import type { CommandLedger } from '../ports/command-ledger.ts';
import type { LongWork } from '../ports/long-work.ts';
import type { JobAudience, JobFollower } from './job-audience.ts';

const MAX_SUBSCRIPTIONS = 20;

interface Parts {
  ledger: Pick<CommandLedger, 'jobs'>;
  work: Pick<LongWork, 'shown'> | undefined;
  audience: JobAudience;
}

/** The job subscriptions of one client. */
export class DashboardJobs {
  readonly #follower: JobFollower;
  readonly #parts: Parts;
  readonly #subscriptions = new Map<string, { filter: JobsSubscribe; end: () => void }>();
  #isClosed = false;

  constructor(follower: JobFollower, parts: Parts) {
    this.#follower = follower;
    this.#parts = parts;
  }

  async subscribe(caller: Caller, filter: JobsSubscribe): Promise<JobsSnapshot> {
    const key = JSON.stringify(filter);
    if (!this.#subscriptions.has(key) && this.#subscriptions.size >= MAX_SUBSCRIPTIONS) {
      throw new AppError(
        'rate_limited',
        `A connection may have at most ${MAX_SUBSCRIPTIONS} job subscriptions.`,
      );
    }
    // The first read checks access. The second follows the subscription, so that no change is lost between the two.
    const [named] = await this.#read(caller, filter);
    if (!this.#isClosed) {
      this.unsubscribe(filter);
      const outputOf = filter.jobId === undefined ? undefined : named?.deviceId;
      const end = this.#parts.audience.add(caller, filter, this.#follower, outputOf);
      this.#subscriptions.set(key, { filter, end });
    }
    return { ok: true, jobs: await this.#read(caller, filter) };
  }

  unsubscribe(filter: JobsSubscribe): void {
    const key = JSON.stringify(filter);
    this.#subscriptions.get(key)?.end();
    this.#subscriptions.delete(key);
  }

  /** Ends subscriptions to jobs that the caller may no longer see. */
  async recheck(caller: Caller): Promise<void> {
    for (const { filter } of this.#subscriptions.values()) {
      try {
        await this.#read(caller, filter);
      } catch (error) {
        if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
        this.unsubscribe(filter);
      }
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { end } of this.#subscriptions.values()) end();
    this.#subscriptions.clear();
  }

  /** The ledger checks whether the caller may see the organization or the device. */
  async #read(caller: Caller, filter: JobsSubscribe): Promise<JobUpdate[]> {
    const { ledger, work } = this.#parts;
    const commands = await ledger.jobs(caller, filter);
    const others = (await work?.shown(caller, filter)) ?? [];
    if (filter.jobId !== undefined && commands.length + others.length === 0) throw notFound('Job');
    // Ids contain the time of their creation.
    return [...commands, ...others].sort((a, b) => (a.id < b.id ? 1 : -1));
  }
}
