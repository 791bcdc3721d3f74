import { BaseModel } from '../../../platform/db/base-model.ts';

/** A sign-in in progress (SPEC 2.13). */
export class SsoSession extends BaseModel {
  static override tableName = 'sso_sessions';
  static override hasUpdatedAt = false;
  declare providerId: string;
  declare providerVersion: number | null;
  declare state: string;
  declare nonce: string;
  declare codeVerifier: string | null;
  declare redirectUrl: string | null;
  /** The session of a signed-in person who links an identity; null for an ordinary sign-in. */
  declare linkSessionId: string | null;
  declare samlResponse: string | null;
  declare expiresAt: Date;
}
