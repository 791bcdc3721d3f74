import type { Logger } from '../../platform/logger.ts';
import { type Tx, withTenant } from '../../platform/db/transaction.ts';
import { organizationScope } from '../groups/index.ts';
import type { ContentParts } from './content-store.ts';
import type { GraphClient } from './graph-client.ts';

/** A run of a configuration or a restore, as a worker of this server executes it. */
export interface Run {
  parts: ContentParts;
  jobId: string;
  orgId: string;
  partnerId: string;
  configId: string;
  encryptionKeyId: string;
  /** Locks the job for the rest of a transaction. Rejects if another server has it by now, or it is cancelled. */
  hold: (tx: Tx) => Promise<void>;
  graph: GraphClient;
  log: Logger;
}

/** How far a container has been read. */
export interface Cursor {
  id: string;
  round: number;
  isWhole: boolean;
  nextLink: string | null;
  deltaLink: string | null;
}

export const within = <T>(
  { parts, orgId }: Pick<Run, 'parts' | 'orgId'>,
  work: (tx: Tx) => PromiseLike<T>,
): Promise<T> => withTenant(parts.db, organizationScope(orgId), work);
