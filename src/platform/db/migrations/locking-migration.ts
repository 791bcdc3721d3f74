import pg from 'pg';
import { clock } from '../../../clock.ts';

/** How long and how often a migration waits for locks that other sessions hold. */
export interface LockPatience {
  /** The longest wait for one lock. Every session that queues behind the migration waits as long, readers too. */
  lockTimeoutMs: number;
  /** Between the first two attempts. Each pause is twice the one before it, up to `maxPauseMs`. */
  pauseMs: number;
  maxPauseMs: number;
  attempts: number;
}

/**
 * Some five minutes in all. A wait ends well before Postgres looks for deadlocks (`deadlock_timeout`, 1 s): otherwise it
 * could end a statement of the fleet that is entangled with the migration, instead of the migration.
 */
export const LOCK_PATIENCE: LockPatience = {
  lockTimeoutMs: 300,
  pauseMs: 500,
  maxPauseMs: 5000,
  attempts: 60,
};

export class BlockedMigrationError extends Error {
  constructor(name: string, attempts: number, cause: unknown) {
    super(
      `Migration ${name} did not get the locks it needs in ${attempts} attempts, because other sessions hold them. ` +
        'Nothing of it was applied. Find long transactions in pg_stat_activity, end them, and start again.',
      { cause },
    );
    this.name = 'BlockedMigrationError';
  }
}

/**
 * Runs the SQL of a migration inside the transaction that is open on the connection. Where another session holds a lock
 * for longer than `lockTimeoutMs`, everything is undone, so that all of its own locks are free again, and tried again
 * later: a migration that waited for a long read would make everybody else wait behind it.
 */
export async function runInTransaction(
  connection: pg.ClientBase,
  { name, sql }: { name: string; sql: string },
  { lockTimeoutMs, pauseMs, maxPauseMs, attempts }: LockPatience,
): Promise<void> {
  await connection.query(`set local lock_timeout = ${lockTimeoutMs}`);
  for (let attempt = 1; ; attempt++) {
    await connection.query('savepoint before_migration');
    try {
      await connection.query(sql);
      return;
    } catch (error) {
      if (!isLockConflict(error)) throw error;
      if (attempt >= attempts) throw new BlockedMigrationError(name, attempts, error);
      await connection.query('rollback to savepoint before_migration');
      await clock.sleep(Math.min(pauseMs * 2 ** (attempt - 1), maxPauseMs));
    }
  }
}

const LOCK_NOT_AVAILABLE = '55P03';
const DEADLOCK_DETECTED = '40P01';
const isLockConflict = (error: unknown) =>
  error instanceof pg.DatabaseError &&
  (error.code === LOCK_NOT_AVAILABLE || error.code === DEADLOCK_DETECTED);
