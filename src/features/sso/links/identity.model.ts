import type { RelationMappings } from 'objection';
import { BaseModel } from '../../../platform/db/base-model.ts';
import { SsoProvider } from '../providers/provider.model.ts';

/** The link between an account and a subject of an identity provider (SPEC 2.12). */
export class SsoIdentity extends BaseModel {
  static override tableName = 'user_sso_identities';
  static override jsonAttributes = ['profile'];
  declare userId: string;
  declare providerId: string;
  declare externalId: string;
  declare email: string | null;
  declare profile: Record<string, unknown>;
  /** Sealed, like `refreshToken`. */
  declare accessToken: string | null;
  declare refreshToken: string | null;
  declare tokenExpiresAt: Date | null;
  declare lastLoginAt: Date | null;
  /** Only set if it was fetched. Null if the caller cannot see it, because they have left the provider's tenant. */
  declare provider?: SsoProvider | null;

  static override relationMappings: RelationMappings = {
    provider: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: SsoProvider,
      join: { from: 'user_sso_identities.provider_id', to: 'sso_providers.id' },
    },
  };
}
