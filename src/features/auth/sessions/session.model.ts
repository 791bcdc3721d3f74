import type { RelationMappings } from 'objection';
import { BaseModel } from '../../../platform/db/base-model.ts';
import { User } from '../../users/index.ts';

/** A session of a user, which is also a family of refresh tokens. */
export class Session extends BaseModel {
  static override tableName = 'sessions';
  static override hasUpdatedAt = false;
  declare userId: string;
  declare lastUsedAt: Date;
  declare expiresAt: Date;
  declare revokedAt: Date | null;
  declare revokedReason: string | null;
  declare mfa: boolean;
  /** Null where it was opened by password. */
  declare ssoProviderId: string | null;
  /** The provider has reported a second factor. It counts for as long as the provider is trusted with that. */
  declare mfaByProvider: boolean;
  declare ipAddress: string | null;
  declare userAgent: string | null;

  static override relationMappings: RelationMappings = {
    user: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'sessions.user_id', to: 'users.id' },
    },
  };
}

/** A refresh token, by its hash. */
export class RefreshToken extends BaseModel {
  static override tableName = 'refresh_tokens';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare sessionId: string;
  declare usedAt: Date | null;
}
