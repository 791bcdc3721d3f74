import { BaseModel } from '../../platform/db/base-model.ts';
import type { StoredEvent as StoredEventAnswer, DiagnosticLog as DiagnosticLogAnswer } from './log.schema.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { DEFAULT_EVENT_DAYS, deviceLogRule, DEFAULT_DIAGNOSTIC_DAYS } from '../log-retention/index.ts';

/** An event that a device has sent in. Stored in batches by `log.queries.ts`. */
export class StoredEvent extends BaseModel {
  static override tableName = 'device_event_logs';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['details'];
  declare deviceId: string;
  declare orgId: string;
  declare timestamp: Date;
  declare level: StoredEventAnswer['level'];
  declare category: StoredEventAnswer['category'];
  declare source: string;
  declare eventId: string | null;
  declare message: string;
  declare details: Record<string, unknown> | null;
}

export const eventLogRetention: readonly RetentionRule[] = [
  deviceLogRule('device_event_logs', DEFAULT_EVENT_DAYS, 'event_days'),
];

export const diagnosticLogRetention: readonly RetentionRule[] = [
  deviceLogRule('agent_logs', DEFAULT_DIAGNOSTIC_DAYS, 'diagnostic_days'),
];

/** A line of an agent's own log. Stored in batches by `log.queries.ts`. */
export class DiagnosticLog extends BaseModel {
  static override tableName = 'agent_logs';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['fields'];
  declare deviceId: string;
  declare orgId: string;
  declare timestamp: Date;
  declare level: DiagnosticLogAnswer['level'];
  declare component: string;
  declare message: string;
  declare fields: Record<string, unknown> | null;
  declare agentVersion: string | null;
}
