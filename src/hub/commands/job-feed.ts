import type { Caller } from '../../platform/context.ts';
import type { CommandStatus, JobOutput, JobsSubscribe, JobUpdate } from '../../protocol/index.ts';
import type { JobChange } from '../ports/command-ledger.ts';

/** Progress of one job is sent at most four times a second. Its end is sent at once. */
const INTERVAL_MS = 250;

const ENDS: readonly CommandStatus[] = ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired'];

/** Sends to every client in one of the rooms, on whichever node it is, once. */
export interface JobRooms {
  update(rooms: string[], job: JobUpdate): void;
  output(rooms: string[], output: JobOutput): void;
}

/** Sends changes of jobs to the clients that may see them. Of several changes within the interval the latest is sent. */
export class JobFeed {
  readonly #rooms: JobRooms;
  /** Jobs that were sent within the current interval. Their later changes wait. */
  #sent = new Set<string>();
  #waiting = new Map<string, JobChange>();
  #timer: NodeJS.Timeout | undefined;

  constructor(rooms: JobRooms) {
    this.#rooms = rooms;
  }

  changed(jobs: readonly JobChange[]): void {
    for (const job of jobs) {
      const { id, state } = job.update;
      if (this.#sent.has(id) && !ENDS.includes(state)) this.#waiting.set(id, job);
      else this.#send(job);
    }
    if (this.#sent.size > 0) this.#timer ??= setTimeout(() => this.#nextInterval(), INTERVAL_MS);
  }

  /** @param deviceId  the sender: output for a job of another device reaches no room */
  output(deviceId: string, output: JobOutput): void {
    this.#rooms.output([outputRoom(deviceId, output.id)], output);
  }

  close(): void {
    clearTimeout(this.#timer);
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

  #send(job: JobChange): void {
    const { id } = job.update;
    this.#waiting.delete(id);
    this.#sent.add(id);
    this.#rooms.update(roomsOf(job), job.update);
  }
}

const ALL_JOBS = 'jobs';
const partnerRoom = (id: string) => `jobs:partner:${id}`;
const orgRoom = (id: string) => `jobs:org:${id}`;
const deviceRoom = (id: string) => `jobs:device:${id}`;
const jobRoom = (id: string) => `jobs:job:${id}`;
const outputRoom = (deviceId: string, jobId: string) => `output:${deviceId}:${jobId}`;

function roomsOf({ update: { id, orgId, deviceId }, partnerId }: JobChange): string[] {
  const rooms = [ALL_JOBS, partnerRoom(partnerId), orgRoom(orgId), jobRoom(id)];
  return deviceId === undefined ? rooms : [...rooms, deviceRoom(deviceId)];
}

/**
 * The rooms that a subscriber joins.
 * @param named  the job that the subscription names by its id, if the caller may see it
 */
export function roomsFor(
  caller: Caller,
  { orgId, deviceId, jobId }: JobsSubscribe,
  named: JobUpdate | undefined,
): string[] {
  if (jobId !== undefined) {
    const ofDevice = named?.deviceId;
    return ofDevice === undefined ? [jobRoom(jobId)] : [jobRoom(jobId), outputRoom(ofDevice, jobId)];
  }
  if (deviceId !== undefined) return [deviceRoom(deviceId)];
  if (orgId !== undefined) return [orgRoom(orgId)];
  if (caller.scope === 'system') return [ALL_JOBS];
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return [partnerRoom(caller.partnerId)];
  return caller.orgIds.map(orgRoom);
}
