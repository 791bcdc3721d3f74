import { BaseModel } from '../../platform/db/base-model.ts';
import type { StoredEvent as StoredEventAnswer, DiagnosticLog as DiagnosticLogAnswer } from './log.schema.ts';

/** An event that a device has sent in. Stored in batches by `log.queries.ts`. */
export class StoredEvent extends BaseModel {
  static override tableName = 'event_logs';
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

/** A line of an agent's own log. Stored in batches by `log.queries.ts`. */
export class DiagnosticLog extends BaseModel {
  static override tableName = 'diagnostic_logs';
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
