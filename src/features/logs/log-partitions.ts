import { ComingPartitions } from '../../platform/db/partitions.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Logger } from '../../platform/logger.ts';
import { addComingLogPartitions } from './log-partition.queries.ts';

/** Partitions for what arrives. A row without one cannot be written, and the agent sends it again. */
export class LogPartitions extends ComingPartitions {
  constructor({ db, log }: { db: Db; log: Logger }) {
    super({ add: () => addComingLogPartitions(db), log, failure: 'logs.partitions_not_added' });
  }
}
