import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import { Organization } from '../organizations/index.ts';
import type { Repeat } from './occurrences.ts';

/** A time in which work on devices is planned, of an organization or of a partner for all of its organizations. */
export class MaintenanceWindow extends BaseModel {
  static override tableName = 'maintenance_windows';
  static override jsonAttributes = ['target', 'repeat'];
  declare partnerId: string;
  /** Null if the window belongs to the partner. */
  declare orgId: string | null;
  declare name: string;
  declare target: DeviceTarget;
  declare timezone: string;
  declare start: string;
  declare durationMinutes: number;
  declare repeat: Repeat | null;
  declare suppressAlerts: boolean;
  declare suppressUpgrades: boolean;
  declare endedEarlyAt: Date | null;
  declare dueAt: Date | null;
  declare shownUntil: Date | null;
  declare overSince: Date | null;
  declare createdBy: string | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'maintenance_windows.org_id', to: 'organizations.id' },
    },
  };
}

export const WINDOW_KEPT_DAYS = 365;

/** Windows that happened once would otherwise fill the limit of their owner. */
export const maintenanceRetention: readonly RetentionRule[] = [
  {
    table: 'maintenance_windows',
    key: ['id'],
    days: WINDOW_KEPT_DAYS,
    isOver: (days) => `old.over_since < now() - make_interval(days => ${days})`,
  },
];
