import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';

export class Group extends BaseModel {
  static override tableName = 'device_groups';
  declare orgId: string;
  declare siteId: string | null;
  declare name: string;
  declare description: string | null;
  declare type: 'static' | 'dynamic';
  declare filterId: string | null;
  declare createdBy: string | null;
  /** No column: counted when a group is read to be shown. */
  declare deviceCount: number;
}

/** For dynamic groups, `DynamicGroupSync` also limits the changes to the newest 10,000. */
export const groupRetention: readonly RetentionRule[] = [
  {
    table: 'device_group_changes',
    key: ['org_id', 'group_id', 'id'],
    days: 365,
    isOver: (days) => `old.at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];
