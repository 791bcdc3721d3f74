import { BaseModel } from '../../platform/db/base-model.ts';
import type { RelationMappings } from 'objection';
import { User } from '../users/index.ts';
import { expiredRows, type RetentionRule } from '../../platform/db/retention-rule.ts';

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
  /** When the second factor was given last. Null if that was at its beginning, or never. */
  declare mfaAt: Date | null;
  /** Null if it was opened by password. */
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

/** A link to set a new password, by the hash of its token. */
export class PasswordReset extends BaseModel {
  static override tableName = 'password_resets';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare userId: string;
  declare expiresAt: Date;
}

/**
 * The authenticator app and the recovery codes of a user. The app counts once `enabledAt` is set. A person who has only
 * passkeys has the row for the recovery codes, with a secret that nobody was told.
 */
export class StoredFactor extends BaseModel {
  static override tableName = 'user_mfa';
  static override idColumn = 'user_id';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare userId: string;
  /** Sealed. */
  declare secret: string;
  declare recoverySalt: string;
  declare enabledAt: Date | null;
  /** The newest time step whose code was accepted: each code works once. A bigint, which the driver returns as text. */
  declare lastStep: string;
  declare tries: number;
}

export class RecoveryCode extends BaseModel {
  static override tableName = 'mfa_recovery_codes';
  static override idColumn = ['user_id', 'code_hash'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare userId: string;
  declare codeHash: string;
  declare usedAt: Date | null;
}

/** A sign-in that waits for its second factor, by the hash of its token. */
export class MfaChallenge extends BaseModel {
  static override tableName = 'mfa_challenges';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare userId: string;
  declare expiresAt: Date;
  declare usedAt: Date | null;
  declare invitationTokenHash: string | null;
}

/** A passkey of a person (docs/decisions/passkeys.md). */
export class StoredPasskey extends BaseModel {
  static override tableName = 'passkeys';
  declare userId: string;
  declare name: string;
  declare credentialId: string;
  /** A COSE key. */
  declare publicKey: Buffer;
  /** A bigint, which the driver returns as text. */
  declare signCount: string;
  declare transports: string[];
  declare synced: boolean;
  /** Its count of signatures has gone back. It opens nothing any more. */
  declare suspectAt: Date | null;
  declare lastUsedAt: Date | null;
}

/** A question to an authenticator that was not answered yet, by the hash of its challenge. */
export class PasskeyChallenge extends BaseModel {
  static override tableName = 'passkey_challenges';
  static override idColumn = 'challenge_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare challengeHash: string;
  declare ceremony: 'registration' | 'sign_in' | 'second_factor' | 'step_up';
  declare userId: string | null;
  declare sessionId: string | null;
  declare mfaChallengeHash: string | null;
  declare expiresAt: Date;
}

/** How many days an ended session is kept for investigation, such as after a theft of its refresh token. */
const ENDED_SESSION_DAYS = 30;

const sessionEnded = (alias: string, days: string) =>
  `least(${alias}.revoked_at, ${alias}.expires_at) < now() - make_interval(days => ${days})`;

/** Tokens are removed before their sessions: a session may have hundreds, which would all be deleted in one transaction. */
export const authRetention: readonly RetentionRule[] = [
  {
    table: 'refresh_tokens',
    key: ['token_hash'],
    days: ENDED_SESSION_DAYS,
    from: 'sessions s join refresh_tokens old on old.session_id = s.id',
    isOver: (days) => sessionEnded('s', days),
  },
  {
    table: 'sessions',
    key: ['id'],
    days: ENDED_SESSION_DAYS,
    isOver: (days) => sessionEnded('old', days),
  },
  expiredRows('password_resets', 'token_hash'),
  expiredRows('mfa_challenges', 'token_hash'),
  expiredRows('passkey_challenges', 'challenge_hash'),
];
