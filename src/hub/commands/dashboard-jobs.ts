import { AppError, notFound } from '../../platform/errors.ts';
import type { Caller } from '../../platform/context.ts';
import type { JobsSnapshot, JobsSubscribe, JobUpdate, JobOutput } from '../../protocol/index.ts';
import type { CommandLedger, LongWork } from '../ports.ts';
import type { JobAudience, JobFollower, EncodedJob } from './job-feed.ts';
import type { EventJson, FlowControl } from '../wire/flow-controlled-client.ts';

/** Before it is seen whether the client has taken them. */
const JOBS_AT_ONCE = 50;
/** A client for which the newest states of more jobs wait does not keep up. It subscribes again after it has reconnected. */
const WAITING_MAX = 10_000;
/** Output beyond this is left out, which the client sees by the gap in `seq`. */
const WAITING_OUTPUT_MAX = 100;

interface Client {
  flow: FlowControl;
  send: (event: EventJson) => void;
}

/**
 * Sends one client the updates of jobs when it has time to read them, and of each job the latest
 * (docs/decisions/slow-dashboards.md).
 */
export class PacedJobs implements JobFollower {
  readonly #client: Client;
  readonly #jobs = new Map<string, EncodedJob>();
  #output: JobOutput[] = [];
  #isWaiting = false;
  #isClosed = false;

  constructor(client: Client) {
    this.#client = client;
  }

  updated(job: EncodedJob): void {
    if (this.#isClosed) return;
    this.#jobs.set(job.update.id, job);
    if (this.#jobs.size > WAITING_MAX) return this.#giveUp();
    this.#send();
  }

  output(output: JobOutput): void {
    if (this.#isClosed || this.#output.length >= WAITING_OUTPUT_MAX) return;
    this.#output.push(output);
    this.#send();
  }

  close(): void {
    this.#isClosed = true;
    this.#jobs.clear();
    this.#output = [];
  }

  #send(): void {
    if (this.#isWaiting || this.#isClosed) return;
    const { flow, send } = this.#client;
    if (flow.isReady) {
      // The output of a job precedes its end.
      for (const output of this.#output.splice(0)) send(outputEvent(output));
      let sent = 0;
      for (const [id, job] of this.#jobs) {
        if (sent >= JOBS_AT_ONCE) break;
        sent += 1;
        this.#jobs.delete(id);
        send(job.event);
      }
    }
    if (this.#jobs.size === 0 && this.#output.length === 0) return;
    this.#isWaiting = true;
    flow.whenReady(() => {
      this.#isWaiting = false;
      this.#send();
    });
  }

  #giveUp(): void {
    this.close();
    this.#client.flow.cutOff();
  }
}

function outputEvent(output: JobOutput): EventJson {
  const text = `${JSON.stringify(output)}]`;
  return { start: '["job:output",', end: { text, bytes: Buffer.from(text) } };
}

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
