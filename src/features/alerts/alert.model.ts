import { BaseModel } from '../../platform/db/base-model.ts';
import type { AlertSeverity, AlertStatus } from './alert.schema.ts';

export class Alert extends BaseModel {
  static override tableName = 'alerts';
  declare orgId: string;
  declare deviceId: string | null;
  declare kind: string;
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
}
