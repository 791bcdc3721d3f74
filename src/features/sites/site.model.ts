import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { Organization } from '../organizations/index.ts';

export class Site extends BaseModel {
  static override tableName = 'sites';
  static override jsonAttributes = ['address', 'contact', 'settings'];
  declare orgId: string;
  declare name: string;
  declare address: unknown;
  declare timezone: string;
  declare contact: unknown;
  declare settings: Record<string, unknown>;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'sites.org_id', to: 'organizations.id' },
    },
  };
}
