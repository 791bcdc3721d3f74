import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { Organization } from '../organizations/index.ts';

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
  // No columns: `takeKey` selects them.
  /** By the clock of the database. */
  declare isExpired: boolean;
  /** Whether the organization of the key and its partner may enroll devices. */
  declare isTenantActive: boolean;
  declare partnerId: string;
  declare organization?: Organization;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'enrollment_keys.org_id', to: 'organizations.id' },
    },
  };
}
