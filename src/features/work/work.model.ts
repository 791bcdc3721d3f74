import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { WorkProgress, WorkStatus } from './definition.ts';

/** A piece of work, as features and dashboards read it. Only the engine writes it. */
export class Work extends BaseModel {
  static override tableName = 'work';
  static override jsonAttributes = ['input', 'progress', 'checkpoint'];
  declare kind: string;
  declare partnerId: string | null;
  declare orgId: string | null;
  declare deviceId: string | null;
  declare status: WorkStatus;
  declare progress: WorkProgress | null;
  declare commandId: string | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare createdAt: Date;
  declare updatedAt: Date;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
  declare cancelRequestedAt: Date | null;
  declare pausedAt: Date | null;
}

/** The rows of features that share its id go with it. */
export const workRetention: readonly RetentionRule[] = [
  {
    table: 'work',
    key: ['id'],
    // Of kinds that do not say otherwise (`keptDays`).
    days: 400,
    isOver: () => `old.finished_at is not null and old.remove_on < current_date`,
    organization: {},
    // Thousands of rows of a feature can go with each.
    atOnce: 50,
  },
];
