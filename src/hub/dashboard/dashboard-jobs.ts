import { AppError } from '../../platform/errors.ts';
import type { Caller } from '../../platform/context.ts';
import type { JobsSnapshot, JobsSubscribe } from '../../protocol/index.ts';
import { roomsFor } from '../commands/job-feed.ts';
import type { CommandLedger } from '../ports/command-ledger.ts';

const MAX_SUBSCRIPTIONS = 20;

/** The rooms of a client in Socket.IO. */
export interface RoomMember {
  join(rooms: string[]): Promise<void> | void;
  leave(room: string): Promise<void> | void;
}

/** The job subscriptions of one client. */
export class DashboardJobs {
  readonly #client: RoomMember;
  readonly #ledger: Pick<CommandLedger, 'jobs'>;
  readonly #subscriptions = new Map<string, { filter: JobsSubscribe; rooms: string[] }>();

  constructor(client: RoomMember, { ledger }: { ledger: Pick<CommandLedger, 'jobs'> }) {
    this.#client = client;
    this.#ledger = ledger;
  }

  async subscribe(caller: Caller, filter: JobsSubscribe): Promise<JobsSnapshot> {
    const key = JSON.stringify(filter);
    if (!this.#subscriptions.has(key) && this.#subscriptions.size >= MAX_SUBSCRIPTIONS) {
      throw new AppError(
        'rate_limited',
        `A connection may have at most ${MAX_SUBSCRIPTIONS} job subscriptions.`,
      );
    }
    // The first read checks access. The second follows the join, so that no change is lost between the two.
    const [named] = await this.#ledger.jobs(caller, filter);
    const rooms = roomsFor(caller, filter, named);
    this.#subscriptions.set(key, { filter, rooms });
    await this.#client.join(rooms);
    return { ok: true, jobs: await this.#ledger.jobs(caller, filter) };
  }

  async unsubscribe(filter: JobsSubscribe): Promise<void> {
    const key = JSON.stringify(filter);
    const left = this.#subscriptions.get(key)?.rooms ?? [];
    this.#subscriptions.delete(key);
    const kept = new Set([...this.#subscriptions.values()].flatMap(({ rooms }) => rooms));
    for (const room of left) if (!kept.has(room)) await this.#client.leave(room);
  }

  /** Ends subscriptions to jobs that the caller may no longer see. */
  async recheck(caller: Caller): Promise<void> {
    for (const { filter } of this.#subscriptions.values()) {
      try {
        await this.#ledger.jobs(caller, filter);
      } catch (error) {
        if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
        await this.unsubscribe(filter);
      }
    }
  }
}
