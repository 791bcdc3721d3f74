import { BaseModel } from '../../platform/db/base-model.ts';
import type { RelationMappings } from 'objection';
import { Role } from '../roles/index.ts';
import { Organization } from '../organizations/index.ts';
import { Partner } from '../partners/index.ts';
import { expiredRows, type RetentionRule } from '../../platform/db/retention-rule.ts';

export class User extends BaseModel {
  static override tableName = 'users';
  declare email: string;
  declare name: string;
  declare passwordHash: string | null;
  declare status: 'active' | 'invited' | 'disabled';
  declare mfaEnabled: boolean;
  /** Null until a user has proved that they read the mail of this address. */
  declare emailVerifiedAt: Date | null;
  declare lastLoginAt: Date | null;
}

/** The roles of every deployment, created by migrations/0003_people.sql with these ids. */
export const SYSTEM_ROLES = {
  systemAdmin: '01900000-0000-7000-8000-000000000001',
  partnerAdmin: '01900000-0000-7000-8000-000000000002',
  partnerTechnician: '01900000-0000-7000-8000-000000000003',
  partnerViewer: '01900000-0000-7000-8000-000000000004',
  organizationAdmin: '01900000-0000-7000-8000-000000000005',
  organizationTechnician: '01900000-0000-7000-8000-000000000006',
  organizationViewer: '01900000-0000-7000-8000-000000000007',
} as const;

const relationsOf = (table: string): RelationMappings => ({
  user: {
    relation: BaseModel.BelongsToOneRelation,
    modelClass: User,
    join: { from: `${table}.user_id`, to: 'users.id' },
  },
  role: {
    relation: BaseModel.BelongsToOneRelation,
    modelClass: Role,
    join: { from: `${table}.role_id`, to: 'roles.id' },
  },
});

/** A user's one membership, with the role that they have by it. */
abstract class Membership extends BaseModel {
  static override idColumn = 'user_id';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare userId: string;
  declare roleId: string;
}

export class SystemMembership extends Membership {
  static override tableName = 'system_users';
  static override relationMappings = relationsOf('system_users');
}

export class PartnerMembership extends Membership {
  static override tableName = 'partner_users';
  static override relationMappings = relationsOf('partner_users');
  declare partnerId: string;
  declare orgAccess: 'all' | 'selected' | 'none';
  declare orgIds: string[];
}

export class OrganizationMembership extends Membership {
  static override tableName = 'organization_users';
  static override relationMappings = relationsOf('organization_users');
  declare orgId: string;
}

/** An invitation into a tenant. It becomes a membership when it is accepted, and is deleted then. */
export class Invitation extends BaseModel {
  static override tableName = 'membership_invitations';
  declare email: string;
  declare name: string;
  /** If partner and organization are null, the invitation is into the system. */
  declare partnerId: string | null;
  declare orgId: string | null;
  declare roleId: string;
  declare orgAccess: 'all' | 'selected' | 'none';
  declare orgIds: string[];
  declare suspended: boolean;
  declare linkTokenHash: string;
  /** The hash of the token in the link that only the mail has: it proves the address. */
  declare mailTokenHash: string;
  declare invitedBy: string | null;
  declare expiresAt: Date;
  declare partner?: Partner;
  declare organization?: Organization;

  static override relationMappings: RelationMappings = {
    partner: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Partner,
      join: { from: 'membership_invitations.partner_id', to: 'partners.id' },
    },
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'membership_invitations.org_id', to: 'organizations.id' },
    },
  };
}

/** How long an expired invitation can still be seen and resent. */
const EXPIRED_INVITATION_DAYS = 30;

export const invitationRetention: readonly RetentionRule[] = [
  expiredRows('membership_invitations', 'id', EXPIRED_INVITATION_DAYS),
];
