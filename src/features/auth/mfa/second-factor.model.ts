import { BaseModel } from '../../../platform/db/base-model.ts';

/** A user's second factor. It counts once `enabledAt` is set. */
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
