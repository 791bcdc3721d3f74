import { clock } from '../../../../clock.ts';
import type { StoreAccess } from '../records/credentials.ts';
import type { ListedObject } from '../records/objects.ts';
import { AppError } from '../../../../platform/errors.ts';

/** restic keeps one lock for each of its processes, and has two for a moment while it renews it. */
const LOCKS_MAX = 16;
const CREDENTIALS_MAX = 10_000;

/**
 * The locks of those who only read. restic insists on writing one and on finding it again; nobody else has to see it. A
 * server that restarts forgets them, and restic does not mind.
 */
export class MemoryLocks {
  readonly #locks = new Map<string, { until: Date; locks: Map<string, Buffer> }>();

  put({ credentialId, expiresAt }: StoreAccess, name: string, content: Buffer): void {
    const { locks } = this.#locks.get(credentialId) ?? { locks: new Map<string, Buffer>() };
    if (!locks.has(name) && locks.size >= LOCKS_MAX) {
      throw new AppError('rate_limited', 'This credential has too many locks.');
    }
    locks.set(name, content);
    this.#locks.set(credentialId, { until: expiresAt, locks });
    if (this.#locks.size > CREDENTIALS_MAX) this.#removeExpired();
  }

  get({ credentialId }: StoreAccess, name: string): Buffer | undefined {
    return this.#locks.get(credentialId)?.locks.get(name);
  }

  remove({ credentialId }: StoreAccess, name: string): void {
    const own = this.#locks.get(credentialId);
    own?.locks.delete(name);
    if (own?.locks.size === 0) this.#locks.delete(credentialId);
  }

  list({ credentialId }: StoreAccess): ListedObject[] {
    const locks = this.#locks.get(credentialId)?.locks ?? [];
    return [...locks].map(([name, { length: size }]) => ({ name, size }));
  }

  #removeExpired(): void {
    for (const [id, { until }] of this.#locks) if (until < clock.date()) this.#locks.delete(id);
  }
}
