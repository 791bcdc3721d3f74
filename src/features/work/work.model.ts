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

/** As long as backup jobs, so that the proof of a snapshot can be followed. */
const DAYS = 400;

/** The rows of features that share its id go with it. */
export const workRetention: readonly RetentionRule[] = [
  {
    table: 'work',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];
