import { type Caller, holds } from '../../platform/context.ts';
import type { JobOutput, JobsSubscribe } from '../../protocol/index.ts';
import type { JobChange } from '../ports/long-work.ts';
import { EncodedJob } from './encoded-job.ts';

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

const EVERYTHING = 'all';

/** The clients of this node that follow jobs, by what they have subscribed to. */
export class JobAudience {
  readonly #members = new Map<string, Set<Member>>();
  #size = 0;

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
    return () => {
      this.#size -= 1;
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

  /** @param deviceId  the sender: output for a job of another device reaches nobody */
  output(deviceId: string, output: JobOutput): void {
    for (const { follower, outputOf } of this.#members.get(`job:${output.id}`) ?? []) {
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
  if (jobId !== undefined) return [`job:${jobId}`];
  if (deviceId !== undefined) return [`device:${deviceId}`];
  if (orgId !== undefined) return [`org:${orgId}`];
  if (caller.scope === 'system') return [EVERYTHING];
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return [`partner:${caller.partnerId}`];
  return caller.orgIds.map((id) => `org:${id}`);
}

function keysOf({ update: { id, orgId, deviceId }, partnerId }: JobChange): string[] {
  const keys = [EVERYTHING, `partner:${partnerId}`, `org:${orgId}`, `job:${id}`];
  return deviceId === undefined ? keys : [...keys, `device:${deviceId}`];
}

function maySee(caller: Caller, { update, partnerId, permission }: JobChange): boolean {
  if (permission !== undefined && !holds(caller.permissions, permission)) return false;
  if (caller.scope === 'system') return true;
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return caller.partnerId === partnerId;
  return caller.orgIds.includes(update.orgId);
}
