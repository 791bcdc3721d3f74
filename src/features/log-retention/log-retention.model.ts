import { BaseModel } from '../../platform/db/base-model.ts';

/** What an organization has chosen; organizations without a row have the defaults. */
export class LogRetentionChoice extends BaseModel {
  static override tableName = 'log_retention';
  static override idColumn = 'org_id';
  static override hasOwnId = false;
  declare orgId: string;
  declare diagnosticDays: number;
  declare eventDays: number;
  declare commandDays: number;
  declare alertDays: number;
}
