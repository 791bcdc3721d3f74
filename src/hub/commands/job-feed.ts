import { type Caller, holds } from '../../platform/context.ts';
import { JobOutput, type JobsSubscribe, type JobUpdate, isFinal } from '../../protocol/index.ts';
import {
  byRecipients,
  type ClusterInterest,
  interestKeys,
  OwnInterest,
  type Tenant,
  tenantKeys,
} from '../cluster/interest.ts';
import { MISSED_MS, RecentEntries } from '../cluster/recent-entries.ts';
import { JobChange, type LongWork, LongWorkNotice } from '../ports.ts';
import type { EventJson } from '../wire/flow-controlled-client.ts';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import { type ClusterEvents, type Recipients, topic } from '../../platform/cluster/cluster-events.ts';
import type { Logger } from '../../platform/logger.ts';

/** An update that many clients are sent: it is serialized and encoded once. */
export class EncodedJob {
  readonly update: JobUpdate;
  #event: EventJson | undefined;

  constructor(update: JobUpdate) {
    this.update = update;
  }

  /** `['job:update', update]`. */
  get event(): EventJson {
    if (this.#event === undefined) {
      const text = `${JSON.stringify(this.update)}]`;
      this.#event = { start: '["job:update",', end: { text, bytes: Buffer.from(text) } };
    }
    return this.#event;
  }
}

/** A client that follows jobs. */
export interface JobFollower {
  updated(job: EncodedJob): void;
  output(output: JobOutput): void;
}

interface Member {
  caller: Caller;
  follower: JobFollower;
  /** The device of the job that the subscription names: the only one whose output it is sent. */
  outputOf: string | undefined;
}

/** The clients of this node that follow jobs, by what they have subscribed to. */
export class JobAudience {
  /** The tenants whose jobs the clients follow. */
  readonly #interest: OwnInterest;
  readonly #members = new Map<string, Set<Member>>();
  #size = 0;

  constructor(interest = new OwnInterest()) {
    this.#interest = interest;
  }

  /** The number of subscriptions. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds a subscription, and returns the function that ends it.
   * @param outputOf  the device of the job that the filter names
   */
  add(caller: Caller, filter: JobsSubscribe, follower: JobFollower, outputOf?: string): () => void {
    const member = { caller, follower, outputOf };
    const keys = keysFor(caller, filter);
    for (const key of keys) this.#with(key).add(member);
    this.#size += 1;
    const endInterest = this.#interest.add(interestKeys(caller, filter.orgId));
    return () => {
      this.#size -= 1;
      endInterest();
      for (const key of keys) {
        const members = this.#members.get(key);
        members?.delete(member);
        if (members?.size === 0) this.#members.delete(key);
      }
    };
  }

  /** Each client is notified once, however many of its subscriptions the job belongs to. */
  changed(change: JobChange): void {
    if (this.#size === 0) return;
    const followers = new Set<JobFollower>();
    for (const key of keysOf(change)) {
      for (const { caller, follower } of this.#members.get(key) ?? []) {
        if (maySee(caller, change)) followers.add(follower);
      }
    }
    if (followers.size === 0) return;
    const job = new EncodedJob(change.update);
    for (const follower of followers) follower.updated(job);
  }

  /** @param deviceId  the sender: output for a job of another device has no receiver */
  output(deviceId: string, output: JobOutput): void {
    for (const { follower, outputOf } of this.#members.get(output.id) ?? []) {
      if (outputOf === deviceId) follower.output(output);
    }
  }

  #with(key: string): Set<Member> {
    const members = this.#members.get(key) ?? new Set();
    this.#members.set(key, members);
    return members;
  }
}

/** Only an index: whether a caller may see a job is decided for each job, because devices move. */
function keysFor(caller: Caller, { orgId, deviceId, jobId }: JobsSubscribe): string[] {
  const named = jobId ?? deviceId;
  return named === undefined ? interestKeys(caller, orgId) : [named];
}

function keysOf(change: JobChange): string[] {
  const { id, deviceId } = change.update;
  const keys = [...tenantKeys(tenantOf(change)), id];
  return deviceId === undefined ? keys : [...keys, deviceId];
}

const tenantOf = ({ update: { orgId }, partnerId }: JobChange): Tenant => ({ orgId, partnerId });

function maySee(caller: Caller, { update, partnerId, permission }: JobChange): boolean {
  if (permission !== undefined && !holds(caller.permissions, permission)) return false;
  if (caller.scope === 'system') return true;
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return caller.partnerId === partnerId;
  return caller.orgIds.includes(update.orgId);
}

/** Changes within this time are read together, so each piece of work is sent at most four times a second. */
const COLLECT_MS = 250;
const RETRY_MS = 1000;
const READ_AT_ONCE = 500;
/** The clocks of the server and the database may differ by so much. */
const CLOCKS_DIFFER_MS = 60_000;

interface Parts {
  work: LongWork;
  audience: JobAudience;
  log: Logger;
}

/**
 * Shows long work to the clients of this node. The database announces to every node which rows have changed; a node reads
 * them only while a client follows jobs on it.
 */
export class LongWorkFeed {
  readonly #parts: Parts;
  readonly #changed = new Map<string, Set<string>>();
  #timer: Timer | undefined;
  #reading: Promise<void> = Promise.resolve();
  #toldAt = clock.now();
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @param payloads  as the database announces them */
  notified(payloads: readonly string[]): void {
    this.#toldAt = clock.now();
    if (this.#parts.audience.size === 0) return;
    for (const payload of payloads) {
      const notice = readNotice(payload);
      if (notice === undefined) this.#parts.log.warn({}, 'hub.long_work_notice_refused');
      else this.#note(notice);
    }
    this.#schedule(COLLECT_MS);
  }

  /** Announcements may have been missed. */
  mayHaveMissed(): void {
    const { audience, work, log } = this.#parts;
    if (audience.size === 0) return;
    const since = new Date(this.#toldAt - CLOCKS_DIFFER_MS);
    this.#reading = this.#reading.then(async () => {
      try {
        for (const change of await work.since(since)) audience.changed(change);
      } catch (error) {
        log.warn({ err: error }, 'hub.long_work_not_read');
      }
    });
  }

  /** Reads now what was announced. */
  async settle(): Promise<void> {
    await this.#reading;
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#reading = this.#readChanged();
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#reading;
  }

  #note({ kind, ids }: LongWorkNotice): void {
    const changed = this.#changed.get(kind) ?? new Set();
    this.#changed.set(kind, changed);
    for (const id of ids) changed.add(id);
  }

  #schedule(ms: number): void {
    if (this.#isClosed || this.#changed.size === 0) return;
    this.#timer ??= clock.setTimeout(() => {
      this.#reading = this.#reading.then(() => this.#readChanged()).finally(() => (this.#timer = undefined));
      // Changes that are published while this reads are read after it.
      void this.#reading.then(() => this.#schedule(COLLECT_MS));
    }, ms);
  }

  async #readChanged(): Promise<void> {
    const { work, audience, log } = this.#parts;
    const notices = [...this.#changed].flatMap(([kind, ids]) =>
      pages([...ids]).map((ids) => ({ kind, ids })),
    );
    this.#changed.clear();
    for (const notice of notices) {
      if (this.#isClosed || audience.size === 0) return;
      try {
        for (const change of await work.read(notice)) audience.changed(change);
      } catch (error) {
        log.warn({ err: error, kind: notice.kind }, 'hub.long_work_not_read');
        this.#note(notice);
        await clock.sleep(RETRY_MS);
      }
    }
  }
}

function pages(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / READ_AT_ONCE) }, (_none, at) =>
    ids.slice(at * READ_AT_ONCE, (at + 1) * READ_AT_ONCE),
  );
}

function readNotice(payload: string): LongWorkNotice | undefined {
  try {
    return LongWorkNotice.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** Progress of one job is sent at most four times a second. Its end is sent at once. */
const INTERVAL_MS = 250;
const JOBS_PER_MESSAGE = 100;

/** Jobs that have changed on a node, for the nodes that follow jobs of these tenants. */
const JOBS_CHANGED = topic('jobs', z.object({ jobs: z.array(JobChange) }));
const JOB_OUTPUT = topic('job_output', z.object({ deviceId: z.string(), output: JobOutput }));

type Interest = Pick<ClusterInterest, 'isNeeded' | 'recipients' | 'onWidened'>;

/**
 * Shows changes of commands to the clients that may see them, on every node. Of several changes within the interval the
 * latest is sent. An announcement that is lost is not repeated: clients of other nodes see the next state.
 */
export class JobFeed {
  readonly #audience: JobAudience;
  readonly #events: Pick<ClusterEvents, 'sendTo'>;
  readonly #interest: Interest | undefined;
  readonly #recent = new RecentEntries<JobChange>(MISSED_MS);
  /** Jobs that were sent within the current interval. Their later changes wait. */
  #sent = new Set<string>();
  #waiting = new Map<string, JobChange>();
  #timer: Timer | undefined;

  /** @param interest  of the other nodes; left out when there are none */
  constructor(
    audience: JobAudience,
    events: Pick<ClusterEvents, 'sendTo' | 'subscribe'>,
    interest?: Interest,
  ) {
    this.#audience = audience;
    this.#events = events;
    this.#interest = interest;
    interest?.onWidened('jobs', (nodeId, isNew) => {
      const missed = [...this.#recent.entries()].map(([, job]) => job);
      this.#sendTo(
        new Set([nodeId]),
        missed.filter((job) => isNew(tenantOf(job))),
      );
    });
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
    this.#send(now);
    if (this.#sent.size > 0) this.#timer ??= clock.setTimeout(() => this.#nextInterval(), INTERVAL_MS);
  }

  /** @param deviceId  the sender: output for a job of another device has no receiver */
  output(deviceId: string, output: JobOutput, tenant: Tenant | undefined): void {
    this.#audience.output(deviceId, output);
    if (this.#interest?.isNeeded('jobs', tenant) !== true) return;
    this.#events.sendTo(this.#interest.recipients('jobs', tenant), JOB_OUTPUT, { deviceId, output });
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

  #send(jobs: readonly JobChange[]): void {
    const interest = this.#interest;
    if (interest === undefined) return;
    for (const job of jobs) this.#recent.note(job.update.id, () => job);
    const recipientsOf = (job: JobChange) => interest.recipients('jobs', tenantOf(job));
    for (const { recipients, changes } of byRecipients(jobs, recipientsOf)) this.#sendTo(recipients, changes);
  }

  #sendTo(recipients: Recipients, jobs: readonly JobChange[]): void {
    for (let start = 0; start < jobs.length; start += JOBS_PER_MESSAGE) {
      const some = jobs.slice(start, start + JOBS_PER_MESSAGE);
      this.#events.sendTo(recipients, JOBS_CHANGED, { jobs: some });
    }
  }

  #nextInterval(): void {
    this.#timer = undefined;
    this.#sent.clear();
    const waiting = [...this.#waiting.values()];
    this.changed(waiting);
  }
}
