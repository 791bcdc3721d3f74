import type { RateLimits } from '../../../../platform/cluster/rate-limits.ts';
import type { Db } from '../../../../platform/db/pool.ts';
import type { RawService } from '../../../../platform/http/server/raw-service.ts';
import type { Metrics } from '../../../../platform/metrics.ts';
import { MemoryLocks } from './memory-locks.ts';
import type { ObjectType } from '../protocol/object-name.ts';
import { type QuotaLimits, StoreQuota } from '../records/quota.ts';
import type { ObjectStorage } from '../storage/storage.ts';
import { storeService } from './store.service.ts';
import { Transfers } from './transfers.ts';

/** How often one network may send a wrong credential. */
const FAILURES = { points: 60, seconds: 60 };
const IDLE_MS = 60_000;

export interface BackupStore {
  storage: ObjectStorage;
  /** What all uploads of this server count in together. */
  shares: StoreQuota;
  service: RawService;
}

interface Parts {
  db: Db;
  storage: ObjectStorage;
  quota: QuotaLimits;
  rateLimits: RateLimits;
  metrics: Metrics;
  /** How long a client that is sending an object may pause. */
  idleMs?: number | undefined;
}

export function createStore({
  db,
  storage,
  quota,
  rateLimits,
  metrics,
  idleMs = IDLE_MS,
}: Parts): BackupStore {
  const bytes = metrics.counter(
    'muster_backup_store_bytes_total',
    'Bytes of objects that the backup store has received and sent.',
    ['direction', 'type'],
  );
  const transfers = new Transfers();
  metrics.labelledGauge(
    'muster_backup_store_transfers',
    'Objects that are being transferred, that wait for their turn, and that were refused since the start.',
    'state',
    () => transfers.state,
  );
  const shares = new StoreQuota(db, quota);
  const count = (direction: 'received' | 'sent') => (type: ObjectType, size: number) =>
    bytes.inc({ direction, type }, size);
  return {
    storage,
    shares,
    service: storeService({
      db,
      storage,
      quota: shares,
      transfers,
      memoryLocks: new MemoryLocks(),
      failures: rateLimits.limiter('backup-store-failure', FAILURES),
      idleMs,
      received: count('received'),
      sent: count('sent'),
    }),
  };
}
