import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { User } from '../users/index.ts';
import { expiredRows, type RetentionRule } from '../../platform/db/retention-rule.ts';

/** A registration that waits for the confirmation of its address, by the hash of its token. */
export class PendingRegistration extends BaseModel {
  static override tableName = 'registrations';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare email: string;
  declare name: string;
  declare passwordHash: string;
  /** A provider that is created on confirmation. */
  declare companyName: string | null;
  /** The administrator of a provider that exists already. */
  declare userId: string | null;
  declare expiresAt: Date;
  declare user?: User;

  static override relationMappings: RelationMappings = {
    user: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'registrations.user_id', to: 'users.id' },
    },
  };
}

/** A link that was not followed in time is of no use any more. */
export const registrationRetention: readonly RetentionRule[] = [expiredRows('registrations', 'token_hash')];
