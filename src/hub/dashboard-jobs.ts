import { AppError } from '../platform/errors.ts';
import type { Caller } from '../platform/context.ts';
import type { JobsSnapshot, JobsSubscribe } from '../protocol/index.ts';
import { roomsFor } from './job-feed.ts';
import type { CommandLedger } from './ports.ts';

const MAX_FOLLOWED = 20;

/** A client's membership of rooms, as Socket.IO keeps it. */
export interface RoomMember {
  caller: () => Caller;
  join(rooms: string[]): Promise<void> | void;
  leave(room: string): Promise<void> | void;
}

/** What one client follows of long work. */
export class DashboardJobs {
  readonly #client: RoomMember;
  readonly #ledger: Pick<CommandLedger, 'jobs'>;
  readonly #followed = new Map<string, string[]>();

  constructor(client: RoomMember, { ledger }: { ledger: Pick<CommandLedger, 'jobs'> }) {
    this.#client = client;
    this.#ledger = ledger;
  }

  async subscribe(filter: JobsSubscribe): Promise<JobsSnapshot> {
    const key = JSON.stringify(filter);
    if (!this.#followed.has(key) && this.#followed.size >= MAX_FOLLOWED) {
      throw new AppError('rate_limited', `At most ${MAX_FOLLOWED} subscriptions to jobs a connection.`);
    }
    const caller = this.#client.caller();
    // Whether it is the caller's to see; then the rooms; then what is in them, so that nothing falls between.
    const [named] = await this.#ledger.jobs(caller, filter);
    const rooms = roomsFor(caller, filter, named);
    this.#followed.set(key, rooms);
    await this.#client.join(rooms);
    return { ok: true, jobs: await this.#ledger.jobs(caller, filter) };
  }

  async unsubscribe(filter: JobsSubscribe): Promise<void> {
    const key = JSON.stringify(filter);
    const left = this.#followed.get(key) ?? [];
    this.#followed.delete(key);
    const kept = new Set([...this.#followed.values()].flat());
    for (const room of left) if (!kept.has(room)) await this.#client.leave(room);
  }
}
