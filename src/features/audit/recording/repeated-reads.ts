import type { Context } from '../../../platform/context.ts';
import type { AuditNote } from '../../../platform/http/route.ts';

/** Whoever turns pages or looks again meanwhile is reading what the entry already says. */
const SAME_READ_MS = 600_000;
const MOST = 10_000;

/**
 * Tells a new read of stored data from more pages of the one before, so that the audit trail has one entry for each and
 * not one for every page. Each server remembers its own: at worst there is an entry more.
 */
export class RepeatedReads {
  readonly #sameReadMs: number;
  readonly #until = new Map<string, number>();

  constructor(sameReadMs = SAME_READ_MS) {
    this.#sameReadMs = sameReadMs;
  }

  /**
   * The note of an entry `data.access`, or none where the caller has read the same lately.
   * @param details  what is read and by which conditions, without the page of it
   */
  noteOf(
    { caller, afterCommit }: Pick<Context, 'caller' | 'afterCommit'>,
    device: { id: string; orgId: string; hostname: string },
    details: Record<string, unknown>,
  ): AuditNote[] {
    const key = JSON.stringify([caller.apiKeyId ?? caller.userId, device.id, details]);
    const until = this.#until.get(key);
    if (until !== undefined && until > performance.now()) return [];
    // Only what is committed has an entry that a later page can rely on.
    afterCommit(() => this.#remember(key));
    return [{ orgId: device.orgId, resourceId: device.id, resourceName: device.hostname, details }];
  }

  #remember(key: string): void {
    this.#until.delete(key);
    this.#until.set(key, performance.now() + this.#sameReadMs);
    if (this.#until.size <= MOST) return;
    const [oldest] = this.#until.keys();
    if (oldest !== undefined) this.#until.delete(oldest);
  }
}
