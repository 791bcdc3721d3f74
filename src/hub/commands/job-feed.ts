import type { Caller } from '../../platform/context.ts';
import type { CommandStatus, JobOutput, JobsSubscribe, JobUpdate } from '../../protocol/index.ts';
import type { JobChange } from '../ports.ts';

/** Progress of one job is told four times a second at most; its end at once. */
const EVERY_MS = 250;

const ENDS: readonly CommandStatus[] = ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired'];

/** Everybody who is in one of the rooms, at whichever node, is told once. */
export interface JobRooms {
  update(rooms: string[], job: JobUpdate): void;
  output(rooms: string[], output: JobOutput): void;
}

/** How work comes on, to whom it concerns. The latest state of a job wins. */
export class JobFeed {
  readonly #rooms: JobRooms;
  /** Told within the present interval; what has come since waits. */
  #told = new Set<string>();
  #waiting = new Map<string, JobChange>();
  #timer: NodeJS.Timeout | undefined;

  constructor(rooms: JobRooms) {
    this.#rooms = rooms;
  }

  changed(jobs: readonly JobChange[]): void {
    for (const job of jobs) {
      const { id, state } = job.update;
      if (this.#told.has(id) && !ENDS.includes(state)) this.#waiting.set(id, job);
      else this.#send(job);
    }
    if (this.#told.size > 0) this.#timer ??= setTimeout(() => this.#next(), EVERY_MS);
  }

  /** @param deviceId  the device that said it: one that speaks of another's job is heard by nobody */
  output(deviceId: string, output: JobOutput): void {
    this.#rooms.output([outputRoom(deviceId, output.id)], output);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.clear();
    this.#told.clear();
  }

  #next(): void {
    this.#timer = undefined;
    this.#told.clear();
    const waiting = [...this.#waiting.values()];
    this.changed(waiting);
  }

  #send(job: JobChange): void {
    const { id } = job.update;
    this.#waiting.delete(id);
    this.#told.add(id);
    this.#rooms.update(roomsOf(job), job.update);
  }
}

const EVERYTHING = 'jobs';
const partnerRoom = (id: string) => `jobs:partner:${id}`;
const orgRoom = (id: string) => `jobs:org:${id}`;
const deviceRoom = (id: string) => `jobs:device:${id}`;
const jobRoom = (id: string) => `jobs:job:${id}`;
const outputRoom = (deviceId: string, jobId: string) => `output:${deviceId}:${jobId}`;

function roomsOf({ update: { id, orgId, deviceId }, partnerId }: JobChange): string[] {
  const rooms = [EVERYTHING, partnerRoom(partnerId), orgRoom(orgId), jobRoom(id)];
  return deviceId === undefined ? rooms : [...rooms, deviceRoom(deviceId)];
}

/**
 * Where a subscriber listens.
 * @param named  the job that was asked for by its id, and found to be the caller's to see
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
  if (caller.scope === 'system') return [EVERYTHING];
  if (caller.orgAccess === 'all' && caller.partnerId !== null) return [partnerRoom(caller.partnerId)];
  return caller.orgIds.map(orgRoom);
}
