import { clock } from '../../../../clock.ts';
import type { RecoveryProgress } from '../../../../protocol/index.ts';
import type { RecoveryServer } from './recovery-server.ts';

const EVERY_MS = 3000;

/** Sends how far a recovery is, one report at a time. */
export class ProgressReports {
  readonly #server: Pick<RecoveryServer, 'report'>;
  readonly #total: number;
  readonly #startedAt = clock.monotonic();
  #before = 0;
  #written = 0;
  #firstDone: number | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | undefined;

  constructor(server: Pick<RecoveryServer, 'report'>, total: number) {
    this.#server = server;
    this.#total = total;
  }

  put({ phase, disk, done }: { phase: string; disk: string; done: number }): void {
    const now = clock.monotonic();
    const all = this.#before + done;
    if (phase === 'writing') {
      this.#firstDone ??= all;
      this.#written = all - this.#firstDone;
    }
    if (this.#sending !== undefined || now - this.#sentAt < EVERY_MS) return;
    this.#sentAt = now;
    const rate = Math.round((this.#written * 1000) / (now - this.#startedAt));
    const progress: RecoveryProgress = {
      phase,
      disk,
      done: all,
      total: this.#total,
      ...(phase === 'writing' && rate > 0 ? { rate, etaSeconds: Math.ceil((this.#total - all) / rate) } : {}),
    };
    this.#sending = this.#server.report(progress).finally(() => (this.#sending = undefined));
  }

  /** A disk is done. */
  next(sizeBytes: number): void {
    this.#before += sizeBytes;
  }

  async end(): Promise<void> {
    await this.#sending;
  }
}
