import { clock, type Timer } from '../../clock.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { RequestBudget } from '../../platform/request-budget.ts';
import type { UpgradeHistory, UpgradeReport } from '../ports.ts';

/** Reports within this time are written together. */
const BATCH_MS = 20;
const RETRY_MS = 1000;
const BATCH = 500;
/** Further reports are refused. Agents keep and resend what is not acknowledged. */
const WAITING_MAX = 20_000;
/**
 * The budget of one device: far more than the phases of an upgrade, and those that were kept while the server was away.
 */
const BUDGET = { requests: 60, windowMs: 60_000 };

type OnStored = (isStored: boolean) => void;

/** Writes what devices report about their upgrades, in batches. A report is acknowledged when it is stored. */
export class UpgradeReportWriter {
  readonly #history: UpgradeHistory;
  readonly #log: Logger;
  readonly #onChanged: (deviceIds: readonly string[]) => void;
  readonly #onRefused: (count: number) => void;
  readonly #budget = new RequestBudget(BUDGET);
  #waiting: { report: UpgradeReport; onStored: OnStored }[] = [];
  #timer: Timer | undefined;
  #writing: Promise<boolean> | undefined;
  #isFailing = false;
  #isClosed = false;

  /**
   * @param onChanged  called with devices whose status has changed
   * @param onRefused  called when the database has refused single reports
   */
  constructor(parts: {
    history: UpgradeHistory;
    log: Logger;
    onChanged: (deviceIds: readonly string[]) => void;
    onRefused: (count: number) => void;
  }) {
    this.#history = parts.history;
    this.#log = parts.log;
    this.#onChanged = parts.onChanged;
    this.#onRefused = parts.onRefused;
  }

  /** @param onStored  called with `true` when the report is stored, or with `false` when it has to be sent again */
  record(report: UpgradeReport, onStored: OnStored): void {
    const isTooMuch = this.#budget.spend(report.deviceId) !== undefined;
    if (this.#isClosed || isTooMuch || this.#waiting.length >= WAITING_MAX) return onStored(false);
    this.#waiting.push({ report, onStored });
    this.#schedule(BATCH_MS);
  }

  /** Writes now what waits. It goes on waiting while the database is unavailable. */
  async settle(): Promise<void> {
    await this.#writing;
    let isWritten = true;
    while (isWritten && this.#waiting.length > 0) {
      clock.clear(this.#timer);
      this.#timer = undefined;
      isWritten = await this.#write();
    }
  }

  /** Writes what waits. Nothing new is taken. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#writing;
    while (this.#waiting.length > 0 && (await this.#writeBatch()));
    for (const { onStored } of this.#waiting.splice(0)) this.#notify(onStored, false);
  }

  #schedule(ms: number): void {
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      void this.#write();
    }, ms);
  }

  #write(): Promise<boolean> {
    this.#writing ??= this.#writeBatch()
      .catch((error: unknown) => {
        this.#log.error({ err: error }, 'upgrades.writing_failed');
        return false;
      })
      .then((isWritten) => {
        this.#writing = undefined;
        if (this.#waiting.length > 0 && !this.#isClosed) this.#schedule(isWritten ? 0 : RETRY_MS);
        return isWritten;
      });
    return this.#writing;
  }

  /** Writes the oldest reports. False when the rest has to wait because the database is unavailable. */
  async #writeBatch(): Promise<boolean> {
    const batch = this.#waiting.slice(0, BATCH);
    const { written, refused, unwritten, failure } = await writeInParts(batch, async (part) => ({
      part,
      changed: await this.#history.record(part.map(({ report }) => report)),
    }));
    this.#waiting.splice(0, batch.length, ...unwritten);
    if (failure !== undefined && !this.#isFailing) {
      this.#log.warn({ err: failure, waiting: this.#waiting.length }, 'upgrades.not_recorded');
    }
    this.#isFailing = failure !== undefined;
    for (const { part, changed } of written) {
      if (changed.length > 0) this.#onChanged(changed);
      for (const { onStored } of part) this.#notify(onStored, true);
    }
    for (const { record, error } of refused) {
      // The database would refuse it again however often it came.
      this.#log.error({ err: error, deviceId: record.report.deviceId }, 'upgrades.report_refused');
      this.#notify(record.onStored, true);
    }
    if (refused.length > 0) this.#onRefused(refused.length);
    return failure === undefined;
  }

  /** A callback that throws must not keep the others from being called. */
  #notify(onStored: OnStored, isStored: boolean): void {
    try {
      onStored(isStored);
    } catch (error) {
      this.#log.error({ err: error }, 'upgrades.callback_failed');
    }
  }
}
