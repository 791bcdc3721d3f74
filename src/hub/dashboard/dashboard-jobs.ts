import { AppError } from '../../platform/errors.ts';
import type { Caller } from '../../platform/context.ts';
import type { JobsSnapshot, JobsSubscribe } from '../../protocol/index.ts';
import { roomsFor } from '../commands/job-feed.ts';
import type { CommandLedger } from '../ports.ts';

const MAX_FOLLOWED = 20;

/** A client's membership of rooms, as Socket.IO keeps it. */
export interface RoomMember {
  join(rooms: string[]): Promise<void> | void;
  leave(room: string): Promise<void> | void;
}

/** What one client follows of long work. */
export class DashboardJobs {
  readonly #client: RoomMember;
  readonly #ledger: Pick<CommandLedger, 'jobs'>;
  readonly #followed = new Map<string, { filter: JobsSubscribe; rooms: string[] }>();

  constructor(client: RoomMember, { ledger }: { ledger: Pick<CommandLedger, 'jobs'> }) {
    this.#client = client;
    this.#ledger = ledger;
  }

  async subscribe(caller: Caller, filter: JobsSubscribe): Promise<JobsSnapshot> {
    const key = JSON.stringify(filter);
    if (!this.#followed.has(key) && this.#followed.size >= MAX_FOLLOWED) {
      throw new AppError('rate_limited', `At most ${MAX_FOLLOWED} subscriptions to jobs a connection.`);
    }
    // Whether it is the caller's to see; then the rooms; then what is in them, so that nothing falls between.
    const [named] = await this.#ledger.jobs(caller, filter);
    const rooms = roomsFor(caller, filter, named);
    this.#followed.set(key, { filter, rooms });
    await this.#client.join(rooms);
    return { ok: true, jobs: await this.#ledger.jobs(caller, filter) };
  }

  async unsubscribe(filter: JobsSubscribe): Promise<void> {
    const key = JSON.stringify(filter);
    const left = this.#followed.get(key)?.rooms ?? [];
    this.#followed.delete(key);
    const kept = new Set([...this.#followed.values()].flatMap(({ rooms }) => rooms));
    for (const room of left) if (!kept.has(room)) await this.#client.leave(room);
  }

  /** Leaves the rooms of what the caller may not see any more. */
  async recheck(caller: Caller): Promise<void> {
    for (const { filter } of this.#followed.values()) {
      try {
        await this.#ledger.jobs(caller, filter);
      } catch (error) {
        if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
        await this.unsubscribe(filter);
      }
    }
  }
}
