import type { Db } from '../../../../platform/db/pool.ts';
import type { RateLimiter } from '../../../../platform/cluster/rate-limits.ts';
import type { MemoryLocks } from './memory-locks.ts';
import type { ObjectType } from '../protocol/object-name.ts';
import type { StoreQuota } from '../records/quota.ts';
import type { ObjectStorage } from '../storage/storage.ts';
import type { Transfers } from './transfers.ts';

/** What the requests of the store work with. */
export interface StoreParts {
  /** A pool of its own: a fleet that backs up must not take the connections of people. */
  db: Db;
  storage: ObjectStorage;
  quota: StoreQuota;
  transfers: Transfers;
  memoryLocks: MemoryLocks;
  /** Counts credentials that are wrong, by where they come from. */
  failures: Pick<RateLimiter, 'take'>;
  /** How long a client that is sending an object may pause. */
  idleMs: number;
  received: (type: ObjectType, bytes: number) => void;
  sent: (type: ObjectType, bytes: number) => void;
}
