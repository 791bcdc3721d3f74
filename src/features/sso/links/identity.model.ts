import { BaseModel } from '../../../platform/db/base-model.ts';

/** The link between an account and a person at an identity provider (SPEC 2.12). */
export class SsoIdentity extends BaseModel {
  static override tableName = 'user_sso_identities';
  static override jsonAttributes = ['profile'];
  declare userId: string;
  declare providerId: string;
  declare externalId: string;
  declare email: string | null;
  declare profile: Record<string, unknown>;
  /** Sealed, like the next. */
  declare accessToken: string | null;
  declare refreshToken: string | null;
  declare tokenExpiresAt: Date | null;
  declare lastLoginAt: Date | null;
}
