import { BaseModel } from '../../platform/db/base-model.ts';

export class EnrollmentKey extends BaseModel {
  static override tableName = 'enrollment_keys';
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare siteId: string | null;
  declare name: string;
  declare keyHash: string;
  declare keyPrefix: string;
  declare usageCount: number;
  declare maxUsage: number | null;
  declare expiresAt: Date | null;
  declare revokedAt: Date | null;
  declare createdBy: string | null;
}
