import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import type { AuditNote } from '../../../platform/http/route.ts';

/** Repeated reads and further pages within this time are covered by the first entry. */
const SAME_READ_MS = 600_000;
const MOST = 10_000;

/**
 * Distinguishes a new read of stored data from further pages of the same read, so that the audit trail has one entry
 * per read instead of one per page. Each server keeps its own memory; the worst case is a duplicate entry.
 */
export class RepeatedReads {
  readonly #sameReadMs: number;
  readonly #until = new Map<string, number>();

  constructor(sameReadMs = SAME_READ_MS) {
    this.#sameReadMs = sameReadMs;
  }

  /**
   * Returns the note for a `data.access` entry, or nothing if the caller read the same data recently.
   * @param details  what is read and with which conditions, without the page number
   */
  noteOf(
    { caller, afterCommit }: Pick<Context, 'caller' | 'afterCommit'>,
    device: { id: string; orgId: string; hostname: string },
    details: Record<string, unknown>,
  ): AuditNote[] {
    const key = JSON.stringify([caller.apiKeyId ?? caller.userId, device.id, details]);
    if (this.isCovered(key)) return [];
    // A later page may be skipped only if the entry of the first one was committed.
    afterCommit(() => this.cover(key));
    return [{ orgId: device.orgId, resourceId: device.id, resourceName: device.hostname, details }];
  }

  /** Whether a read has an entry from less than ten minutes ago. */
  isCovered(key: string): boolean {
    const until = this.#until.get(key);
    return until !== undefined && until > clock.monotonic();
  }

  /** To call when the entry of a read is committed. */
  cover(key: string): void {
    this.#until.delete(key);
    this.#until.set(key, clock.monotonic() + this.#sameReadMs);
    if (this.#until.size <= MOST) return;
    const [oldest] = this.#until.keys();
    if (oldest !== undefined) this.#until.delete(oldest);
  }
}
