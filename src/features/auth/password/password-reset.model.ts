import { BaseModel } from '../../../platform/db/base-model.ts';

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
