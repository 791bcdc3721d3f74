import { clock, type Timer } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystemStatement } from '../../../platform/db/transaction.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import { HAND_OVER } from './background.ts';

/** Devices that return within this time are looked up together. */
const COLLECT_MS = 500;

interface Parts {
  db: Db;
  jobs: Pick<Jobs, 'enqueue'>;
  log: Logger;
  collectMs?: number;
}

/**
 * Begins a round of the hand-over when a device has connected for which a backup waits. However many devices return, that
 * is one statement in half a second, and no round where nothing waits. What is missed comes with the round of the minute.
 */
export class ReturnedDevices {
  readonly #parts: Parts;
  #turned = new Set<string>();
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Call it when the new presence of the devices is in the database: of those that connected, and of others too. */
  turned(deviceIds: readonly string[]): void {
    if (this.#isClosed) return;
    for (const id of deviceIds) this.#turned.add(id);
    this.#timer ??= clock.setTimeout(() => void this.#begin(), this.#parts.collectMs ?? COLLECT_MS);
  }

  #begin(): Promise<void> {
    this.#running = this.#look().finally(() => {
      this.#timer = undefined;
      if (this.#turned.size > 0) this.turned([]);
    });
    return this.#running;
  }

  /** Looks up now the devices that have returned. */
  async settle(): Promise<void> {
    await this.#running;
    clock.clear(this.#timer);
    this.#timer = undefined;
    if (this.#turned.size > 0) await this.#begin();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#running;
  }

  async #look(): Promise<void> {
    const { db, jobs, log } = this.#parts;
    const deviceIds = [...this.#turned];
    this.#turned = new Set();
    try {
      const found = await withSystemStatement(
        db,
        'whether a backup waits for devices that have returned',
        { ...WAITING, values: [deviceIds] },
        () => true,
      );
      if ((found ?? []).length > 0) await jobs.enqueue(undefined, HAND_OVER, {});
    } catch (error) {
      log.warn({ err: error, devices: deviceIds.length }, 'backup.returned_devices_not_read');
    }
  }
}

const WAITING = {
  name: 'backup-waits-for-returned',
  text: `select j.id from backup_jobs j
    join device_presence p on p.device_id = j.device_id and p.state = 'connected'
    where j.device_id = any($1::uuid[]) and j.finished_at is null and j.command_id is null and j.due_at <= now()
    limit 1`,
};
