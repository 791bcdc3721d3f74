import { BaseModel } from '../../platform/db/base-model.ts';

export class ApiKey extends BaseModel {
  static override tableName = 'api_keys';
  declare orgId: string | null;
  declare createdBy: string;
  declare name: string;
  declare keyHash: string;
  declare keyPrefix: string;
  declare scopes: string[];
  declare rateLimit: number;
  declare expiresAt: Date | null;
  declare revokedAt: Date | null;
  declare lastUsedAt: Date | null;
  /** A bigint, which the driver gives as text. */
  declare usageCount: string;
}
