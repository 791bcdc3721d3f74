import { BaseModel } from '../../../platform/db/base-model.ts';
import type { KindName } from '../kinds/kind.ts';

/** A message, an event, a contact or a file, as it is backed up. */
export class CloudItem extends BaseModel {
  static override tableName = 'c2c_items';
  static override jsonAttributes = ['metadata'];
  declare orgId: string;
  declare configId: string;
  declare userId: string;
  declare userEmail: string;
  declare kind: KindName;
  declare containerId: string;
  declare externalId: string;
  declare name: string;
  declare parentPath: string;
  declare metadata: Record<string, unknown>;
  declare etag: string | null;
  declare sizeBytes: string | null;
  declare itemDate: Date | null;
  declare versionId: string | null;
  declare isDue: boolean;
  declare errorCode: string | null;
  declare seenRound: number;
  declare deletedAt: Date | null;
}
