import { BaseModel } from '../../platform/db/base-model.ts';
import type { WhenFull } from './log-retention.schema.ts';

/** The choices of an organization; organizations without a row have the defaults. */
export class LogRetentionChoice extends BaseModel {
  static override tableName = 'log_retention';
  static override idColumn = 'org_id';
  static override hasOwnId = false;
  declare orgId: string;
  declare diagnosticDays: number;
  declare eventDays: number;
  declare commandDays: number;
  declare alertDays: number;
  declare whenFull: WhenFull;
  /** The last arrival day whose removal has begun and not ended. */
  declare removingThrough: string | null;
}
