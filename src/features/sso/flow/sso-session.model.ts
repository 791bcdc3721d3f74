import { BaseModel } from '../../../platform/db/base-model.ts';

/** A sign-in that is under way (SPEC 2.13). */
export class SsoSession extends BaseModel {
  static override tableName = 'sso_sessions';
  static override hasUpdatedAt = false;
  declare providerId: string;
  declare providerVersion: number | null;
  declare state: string;
  declare nonce: string;
  declare codeVerifier: string | null;
  declare redirectUrl: string | null;
  /** Of a person who links an identity to their account. */
  declare linkSessionId: string | null;
  declare samlResponse: string | null;
  declare expiresAt: Date;
}
