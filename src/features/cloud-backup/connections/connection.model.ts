import { BaseModel } from '../../../platform/db/base-model.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';

/** Access to a directory at Microsoft, by an app of the organization or by the one of this server. */
export class CloudConnection extends BaseModel {
  static override tableName = 'c2c_connections';
  declare orgId: string;
  declare provider: 'microsoft_365';
  declare authMethod: 'manual' | 'platform_app';
  declare displayName: string;
  declare tenantId: string;
  declare clientId: string | null;
  declare sealedSecret: string | null;
  declare lastErrorCode: string | null;
  declare lastErrorMessage: string | null;
  declare lastSyncAt: Date | null;
  declare throttledUntil: Date | null;
  declare createdBy: string | null;
}

/** For `npm run rotate-secrets`. */
export const SEALED_CONNECTION_SECRET: SealedColumn = {
  table: 'c2c_connections',
  column: 'sealed_secret',
  id: 'id',
};
