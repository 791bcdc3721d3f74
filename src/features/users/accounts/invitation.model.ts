import type { RelationMappings } from 'objection';
import { BaseModel } from '../../../platform/db/base-model.ts';
import { Organization } from '../../organizations/index.ts';
import { Partner } from '../../partners/index.ts';

/** An invitation into a tenant. It becomes a membership when it is accepted, and is deleted then. */
export class Invitation extends BaseModel {
  static override tableName = 'membership_invitations';
  declare email: string;
  declare name: string;
  /** Both null: into the system. */
  declare partnerId: string | null;
  declare orgId: string | null;
  declare roleId: string;
  declare orgAccess: 'all' | 'selected' | 'none';
  declare orgIds: string[];
  declare suspended: boolean;
  declare linkTokenHash: string;
  /** Of the link that only the mail has: it proves the address. */
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
