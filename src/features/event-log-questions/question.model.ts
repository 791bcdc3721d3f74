import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { LogEntry, LogQuerySummary } from '../../protocol/index.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { Organization } from '../organizations/index.ts';
import { User } from '../users/index.ts';
import type { Outcome, QuestionQuery } from './question.schema.ts';

/** A query of event logs that devices are asked as they come back. */
export class EventLogQuestion extends BaseModel {
  static override tableName = 'event_log_questions';
  static override jsonAttributes = ['target', 'query'];
  declare partnerId: string;
  /** Null if it belongs to the partner. */
  declare orgId: string | null;
  declare name: string | null;
  declare target: DeviceTarget;
  declare query: QuestionQuery;
  declare atMostRows: number;
  declare days: number;
  declare deviceCount: number;
  declare endsAt: Date;
  declare cancelledAt: Date | null;
  /** Null if the account was deleted. */
  declare createdBy: string | null;
  declare authorName: string;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'event_log_questions.org_id', to: 'organizations.id' },
    },
    author: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'event_log_questions.created_by', to: 'users.id' },
    },
  };
}

/** What became of a question at one device. Its id is that of the work that asks the device. */
export class EventLogAnswer extends BaseModel {
  static override tableName = 'event_log_answers';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['entries', 'summary'];
  declare questionId: string;
  declare orgId: string;
  declare deviceId: string;
  declare outcome: Outcome;
  declare code: string | null;
  declare message: string | null;
  declare asks: number;
  declare askedAt: Date | null;
  declare endedAt: Date | null;
  declare entries: LogEntry[] | null;
  declare entryCount: number;
  declare leftOut: number;
  declare summary: LogQuerySummary | null;

  static override relationMappings: RelationMappings = {
    device: belongsTo(DeviceModel, 'event_log_answers', 'device_id'),
  };
}

export const QUESTION_KEPT_DAYS = 30;

export const questionRetention: readonly RetentionRule[] = [
  {
    table: 'event_log_questions',
    key: ['id'],
    days: QUESTION_KEPT_DAYS,
    isOver: (days) => `old.ends_at < now() - make_interval(days => ${days})`,
    // The answers of thousands of devices go with each.
    atOnce: 10,
  },
];
