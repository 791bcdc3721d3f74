import type { RelationMappings } from 'objection';
import { BaseModel } from '../../../platform/db/base-model.ts';
import { Role } from '../../roles/index.ts';
import { User } from './user.model.ts';

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
