import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { Organization } from '../organizations/index.ts';
import { Partner } from '../partners/index.ts';
import { User } from '../users/index.ts';

/** A name for what a person has chosen on a list of the dashboard. */
export class SavedView extends BaseModel {
  static override tableName = 'saved_views';
  static override jsonAttributes = ['search'];
  declare userId: string;
  declare partnerId: string | null;
  declare orgId: string | null;
  declare list: string;
  declare name: string;
  declare search: Record<string, unknown>;
  declare isShared: boolean;

  static override relationMappings: RelationMappings = {
    owner: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'saved_views.user_id', to: 'users.id' },
    },
    partner: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Partner,
      join: { from: 'saved_views.partner_id', to: 'partners.id' },
    },
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'saved_views.org_id', to: 'organizations.id' },
    },
  };
}
