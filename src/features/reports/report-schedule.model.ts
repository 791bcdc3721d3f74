import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { Organization } from '../organizations/index.ts';

/** A report that is mailed once a month, of an organization, or of each organization of a partner. */
export class ReportSchedule extends BaseModel {
  static override tableName = 'report_schedules';
  declare partnerId: string;
  /** Null if it belongs to the partner. */
  declare orgId: string | null;
  declare name: string;
  declare dayOfMonth: number;
  declare time: string;
  declare timezone: string;
  declare userIds: string[];
  declare addresses: string[];
  /** Whose rights decide what is mailed. */
  declare personId: string | null;
  /** Null while it is paused. */
  declare dueAt: Date | null;
  declare pausedBecause: string | null;
  declare lastDueAt: Date | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'report_schedules.org_id', to: 'organizations.id' },
    },
  };
}
