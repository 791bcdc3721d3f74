import type { ObjectStorage, StoreQuota } from '../../backup/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';

/** What it takes to write and read the content of items. */
export interface ContentParts {
  db: Db;
  secrets: Sealer;
  backupStore: { storage: ObjectStorage; shares: StoreQuota };
}

/** Where content is written: for which organization, and with which of its keys. */
export interface ContentPlace {
  orgId: string;
  partnerId: string;
  encryptionKeyId: string;
}

/** A part of a content. Contents of up to this size are one part. */
export const PART_BYTES = 4 << 20;
