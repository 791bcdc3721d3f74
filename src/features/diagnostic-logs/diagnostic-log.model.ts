import { BaseModel } from '../../platform/db/base-model.ts';
import type { DiagnosticLog as DiagnosticLogAnswer } from './diagnostic-log.schema.ts';

/** A line of an agent's own log. Stored in batches by `diagnostic-log.queries.ts`. */
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
