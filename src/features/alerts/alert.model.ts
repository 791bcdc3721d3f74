import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { chosenDays, DEFAULT_ALERT_DAYS } from '../log-retention/index.ts';
import { Organization } from '../organizations/index.ts';
import type { AlertSeverity, AlertStatus } from './alert.schema.ts';

export class Alert extends BaseModel {
  static override tableName = 'alerts';
  declare orgId: string;
  declare deviceId: string | null;
  declare kind: string;
  /** Null if no rule decided about it, or the rule was deleted. */
  declare ruleId: string | null;
  declare severity: AlertSeverity;
  declare status: AlertStatus;
  declare title: string;
  declare message: string;
  declare details: Record<string, unknown>;
  declare count: number;
  declare raisedAt: Date;
  declare lastAt: Date;
  declare acknowledgedAt: Date | null;
  declare acknowledgedBy: string | null;
  declare resolvedAt: Date | null;
  declare resolvedBy: string | null;
  declare note: string | null;
  declare resolution: string | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'alerts.org_id', to: 'organizations.id' },
    },
  };
}

/** Resolved alerts whose cause persists are kept, because they keep the same alert from being raised again. */
export const alertRetention: readonly RetentionRule[] = [
  {
    table: 'alerts',
    key: ['id'],
    days: DEFAULT_ALERT_DAYS,
    isOver: (days) => `old.status = 'resolved' and not old.cause_lasts
      and old.resolved_at < now() - make_interval(days => ${days})`,
    organization: { chosenDays: chosenDays('alert_days') },
  },
];
