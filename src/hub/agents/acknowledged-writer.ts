import { clock, type Timer } from '../../clock.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { RequestBudget } from '../../platform/request-budget.ts';

const RETRY_MS = 1000;

type OnStored = (isStored: boolean) => void;

export interface AcknowledgedWriterOptions<Report, Written> {
  /** What the reports are about, as the log names it. */
  what: string;
  log: Logger;
  /** Stores all reports of a part or none of them. */
  write: (part: readonly Report[]) => Promise<Written>;
  /** Called with the result of each part that was written. */
  onWritten?: (written: Written) => void;
  /** Whether the report is stored although its part was written. Default: it is. */
  isStored?: (report: Report, written: Written) => boolean;
  /** Called when the database has refused single reports. */
  onRefused: (count: number) => void;
  /** Reports within this time are written together. */
  batchMs: number;
  /** The most reports in one write. */
  batch: number;
  /** How much of memory a report takes, in any unit. Default: all take as much. */
  sizeOf?: (report: Report) => number;
  /** What may wait, in that unit. Further reports are refused. Agents keep and resend what is not acknowledged. */
  waitingMax: number;
  /** How many reports one device may send. */
  budget: ConstructorParameters<typeof RequestBudget>[0];
}

/** Writes what devices report, in batches. A report is acknowledged when it is stored. */
export class AcknowledgedWriter<Report extends { deviceId: string }, Written> {
  readonly #options: AcknowledgedWriterOptions<Report, Written>;
  readonly #budget: RequestBudget;
  #waiting: { report: Report; onStored: OnStored }[] = [];
  /** Of what waits. */
  #size = 0;
  #timer: Timer | undefined;
  #writing: Promise<boolean> | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(options: AcknowledgedWriterOptions<Report, Written>) {
    this.#options = options;
    this.#budget = new RequestBudget(options.budget);
  }

  /** @param onStored  called with `true` when the report is stored, or with `false` when it has to be sent again */
  record(report: Report, onStored: OnStored): void {
    const { batchMs, waitingMax } = this.#options;
    const size = this.#sizeOf(report);
    const isTooMuch = this.#budget.spend(report.deviceId) !== undefined;
    if (this.#isClosed || isTooMuch || this.#size + size > waitingMax) return onStored(false);
    this.#waiting.push({ report, onStored });
    this.#size += size;
    this.#schedule(batchMs);
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

  #sizeOf(report: Report): number {
    return this.#options.sizeOf?.(report) ?? 1;
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
        this.#options.log.error({ err: error }, `${this.#options.what}.writing_failed`);
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
    const { what, log, write, onWritten, isStored, onRefused } = this.#options;
    const batch = this.#waiting.slice(0, this.#options.batch);
    const { written, refused, unwritten, failure } = await writeInParts(batch, async (part) => ({
      part,
      result: await write(part.map(({ report }) => report)),
    }));
    this.#waiting.splice(0, batch.length, ...unwritten);
    this.#size = this.#waiting.reduce((sum, one) => sum + this.#sizeOf(one.report), 0);
    if (failure !== undefined && !this.#isFailing) {
      log.warn({ err: failure, waiting: this.#waiting.length }, `${what}.not_recorded`);
    }
    this.#isFailing = failure !== undefined;
    for (const { part, result } of written) {
      onWritten?.(result);
      for (const { report, onStored } of part) this.#notify(onStored, isStored?.(report, result) ?? true);
    }
    for (const { record, error } of refused) {
      // The database would refuse it again however often it came.
      log.error({ err: error, deviceId: record.report.deviceId }, `${what}.report_refused`);
      this.#notify(record.onStored, true);
    }
    if (refused.length > 0) onRefused(refused.length);
    return failure === undefined;
  }

  /** A callback that throws must not keep the others from being called. */
  #notify(onStored: OnStored, isStored: boolean): void {
    try {
      onStored(isStored);
    } catch (error) {
      this.#options.log.error({ err: error }, `${this.#options.what}.callback_failed`);
    }
  }
}
