import { z } from 'zod';
import type { Db } from '../db/pool.ts';
import { runPrepared } from '../db/prepared.ts';
import type { Statement } from '../db/statement.ts';
import { type Tx, withSystem, withSystemStatement } from '../db/transaction.ts';
import {
  CANCEL,
  CLAIM,
  COUNT,
  END,
  LOCK_CLAIMS,
  LOOK,
  READ,
  RENEW,
  SAVE_PROGRESS,
  TAKE_OVER,
} from './job-statements.ts';

export const JobState = z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled']);
export type JobState = z.infer<typeof JobState>;

export interface ClaimedJob {
  id: string;
  leaseId: string;
  partnerId: string | null;
  attempt: number;
  maxAttempts: number;
  input: unknown;
  sealedInput: string | null;
  progress: unknown;
}

export interface Look {
  /** Names of which at least one job is due. */
  waiting: string[];
  /** Ids of running jobs that somebody has cancelled. */
  cancelled: string[];
  /** Whether leases or deadlines have passed. */
  overdue: boolean;
  /** Whether a recurring job is due. */
  scheduled: boolean;
}

export interface TakenOver {
  id: string;
  name: string;
  attempt: number;
  state: JobState;
  partnerId: string | null;
}

export interface JobCount {
  name: string;
  state: JobState;
  jobs: number;
  oldestSeconds: number;
}

/** How an attempt ended. */
export type Ending =
  | { as: 'succeeded'; result: unknown }
  | { as: 'failed' | 'cancelled' | 'handedBack'; reason: string }
  | { as: 'again'; reason: string; afterMs: number };

export interface ClaimOptions {
  name: string;
  /** How many this process can begin now. */
  free: number;
  /** How many of those are kept for partners that have nothing running. */
  reserved: number;
  inCluster: number;
  leaseMs: number;
}

/** The statements about jobs, each in a short transaction of its own. */
export class JobStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async look(
    names: readonly string[],
    running: readonly string[],
    schedules: readonly string[],
  ): Promise<Look> {
    const [found] = await this.#run<Look>(LOOK, [names, running, schedules]);
    return found ?? { waiting: [], cancelled: [], overdue: false, scheduled: false };
  }

  async claim({ name, free, reserved, inCluster, leaseMs }: ClaimOptions): Promise<ClaimedJob[]> {
    return this.inTransaction(async (tx) => {
      await runPrepared(tx, LOCK_CLAIMS, [name]);
      return runPrepared<ClaimedJob>(tx, CLAIM, [name, free, reserved, inCluster, leaseMs / 1000]);
    });
  }

  /** Answers the ids that are still held by their leases. */
  async renew(held: readonly Pick<ClaimedJob, 'id' | 'leaseId'>[], leaseMs: number): Promise<Set<string>> {
    const rows = await this.#run<{ id: string }>(RENEW, [
      held.map(({ id }) => id),
      held.map(({ leaseId }) => leaseId),
      leaseMs / 1000,
    ]);
    return new Set(rows.map(({ id }) => id));
  }

  /** Whether the lease was still held. */
  async saveProgress(
    { id, leaseId }: Pick<ClaimedJob, 'id' | 'leaseId'>,
    progress: unknown,
  ): Promise<boolean> {
    return (await this.#run(SAVE_PROGRESS, [id, leaseId, JSON.stringify(progress)])).length > 0;
  }

  /** Whether the lease was still held, without which nothing is written. */
  async end({ id, leaseId }: Pick<ClaimedJob, 'id' | 'leaseId'>, ending: Ending): Promise<boolean> {
    const values: unknown[] = [id, leaseId];
    if (ending.as === 'succeeded') {
      values.push(ending.result === undefined ? null : JSON.stringify(ending.result));
    } else {
      values.push(ending.reason.slice(0, 1000));
    }
    if (ending.as === 'again') values.push(ending.afterMs / 1000);
    return (await this.#run(END[ending.as], values)).length > 0;
  }

  async takeOver(): Promise<TakenOver[]> {
    return this.#run<TakenOver>(TAKE_OVER, []);
  }

  /** `undefined` where the job has ended or does not exist. */
  async cancel(id: string): Promise<JobState | undefined> {
    const [found] = await this.#run<{ state: JobState }>(CANCEL, [id]);
    return found?.state;
  }

  async read(id: string): Promise<Record<string, unknown> | undefined> {
    return (await this.#run<Record<string, unknown>>(READ, [id]))[0];
  }

  async count(): Promise<JobCount[]> {
    return this.#run<JobCount>(COUNT, []);
  }

  async inTransaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return withSystem(this.#db, 'work on jobs of all partners', work);
  }

  async #run<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const always = () => true;
    return (
      (await withSystemStatement<Row>(
        this.#db,
        'work on jobs of all partners',
        { ...statement, values },
        always,
      )) ?? []
    );
  }
}
