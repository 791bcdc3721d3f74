import { Organization } from '../organizations/index.ts';
import { Partner } from '../partners/index.ts';
import { Role } from '../roles/index.ts';
import { BaseModel } from '../../platform/db/base-model.ts';
import { sealContext } from '../../platform/secrets/sealed.ts';
import { expiredRows, type RetentionRule } from '../../platform/db/retention-rule.ts';
import type { RelationMappings } from 'objection';
import type { Caller } from '../../platform/context.ts';
import type {
  AttributeMapping,
  PROVIDER_TYPES,
  PROVIDER_STATUSES,
  TOKEN_AUTH_METHODS,
} from './sso.schema.ts';

/** An identity provider of one organization or of one partner (SPEC 2.11). */
export class SsoProvider extends BaseModel {
  static override tableName = 'sso_providers';
  static override jsonAttributes = ['attributeMapping'];
  /** Exactly one of `orgId` and `partnerId` is set. */
  declare orgId: string | null;
  declare partnerId: string | null;
  declare name: string;
  declare type: (typeof PROVIDER_TYPES)[number];
  declare status: (typeof PROVIDER_STATUSES)[number];
  declare preset: string | null;
  declare issuer: string | null;
  declare clientId: string | null;
  /** Sealed (`clientSecretContext`). */
  declare clientSecret: string | null;
  declare tokenAuthMethod: (typeof TOKEN_AUTH_METHODS)[number];
  /** Separated by spaces. */
  declare scopes: string;
  declare authorizationUrl: string | null;
  declare tokenUrl: string | null;
  declare userinfoUrl: string | null;
  declare jwksUrl: string | null;
  /** The provider names itself in each response (RFC 9207), so a response that does not is refused. */
  declare sendsIssuer: boolean;
  declare entityId: string | null;
  declare ssoUrl: string | null;
  /** One or several certificates as PEM. */
  declare certificate: string | null;
  declare attributeMapping: AttributeMapping;
  declare autoProvision: boolean;
  declare defaultRoleId: string | null;
  declare defaultRoleConfiguredBy: string | null;
  /** Domains in lower case, separated by commas. Empty means all domains. */
  declare allowedDomains: string;
  declare enforceSso: boolean;
  declare trustsIdpMfa: boolean;
  declare breakGlassUserIds: string[];
  /** Increases with each change of settings or status. A sign-in that began with another version is refused. */
  declare configVersion: number;
  /** The last successful sign-in. Null again when a change selects another identity provider. */
  declare lastSuccessAt: Date | null;
  declare discoveryFailures: number;
  /** The permissions of the person who configured it last. Null if that was before they were noted. */
  declare configuredPermissions: string[] | null;
  declare createdBy: string | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'sso_providers.org_id', to: 'organizations.id' },
    },
    partner: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Partner,
      join: { from: 'sso_providers.partner_id', to: 'partners.id' },
    },
    defaultRole: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Role,
      join: { from: 'sso_providers.default_role_id', to: 'roles.id' },
    },
  };
}

/** The owner of a provider: one of the two is set. */
export type Owned = Pick<SsoProvider, 'orgId' | 'partnerId'>;

/** The path at which a sign-in with the provider of an organization or a partner begins. */
export const loginUrlOf = ({ orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>): string =>
  partnerId === null ? `/api/v1/sso/login/${orgId ?? ''}` : `/api/v1/sso/login/partner/${partnerId}`;

type Member = Pick<Caller, 'orgId' | 'partnerId'>;

/** Whether a person is a member of the organization or the partner that owns the provider. */
export const isOfOwner = (
  { orgId, partnerId }: Member,
  provider: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): boolean => (provider.orgId === null ? provider.partnerId === partnerId : provider.orgId === orgId);

/** A mail domain of which an organization proves that it is the owner. */
export class SsoDomain extends BaseModel {
  static override tableName = 'sso_domains';
  declare orgId: string;
  declare domain: string;
  declare status: 'pending' | 'verified';
  /** The random part of the value that the TXT record must have. */
  declare token: string;
  declare verifiedAt: Date | null;
  /** The time since which the daily check has not found the record of a verified domain. */
  declare failingSince: Date | null;
  declare createdBy: string | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'sso_domains.org_id', to: 'organizations.id' },
    },
  };
}

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

  static override relationMappings: RelationMappings = {
    provider: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: SsoProvider,
      join: { from: 'sso_sessions.provider_id', to: 'sso_providers.id' },
    },
  };
}

/** A code that the dashboard exchanges for the tokens of a session that a sign-in has just opened. */
export class ExchangeCode extends BaseModel {
  static override tableName = 'sso_exchange_codes';
  static override idColumn = 'code_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare codeHash: string;
  declare sessionId: string;
  /** Sealed (`exchangeTokenContext`). */
  declare refreshToken: string;
  /** Identifies the browser that has come back from the identity provider. Null: a link for any browser. */
  declare browserHash: string | null;
  declare expiresAt: Date;
}

/** The branding of a partner on the login page (SPEC 2.14). */
export class PartnerLoginBranding extends BaseModel {
  static override tableName = 'partner_login_branding';
  static override idColumn = 'partner_id';
  static override hasOwnId = false;
  declare partnerId: string;
  /** An https:// URL, or a data: URI whose image was checked. */
  declare logoUrl: string | null;
  /** `#rrggbb` in lower case. */
  declare accentColor: string | null;
  declare headline: string | null;
}

export const ssoRetention: readonly RetentionRule[] = [
  expiredRows('sso_sessions', 'id', 0),
  expiredRows('sso_exchange_codes', 'code_hash', 0),
  {
    table: 'saml_used_assertions',
    key: ['provider_id', 'assertion_hash'],
    days: 0,
    isOver: (days) => `old.expires_at < now() - make_interval(days => ${days})`,
  },
];

/** The columns of this feature that are stored sealed. */
export const SEALED_SSO_COLUMNS = [
  { table: 'sso_providers', column: 'client_secret', id: 'id' },
  { table: 'user_sso_identities', column: 'access_token', id: 'id' },
  { table: 'user_sso_identities', column: 'refresh_token', id: 'id' },
  { table: 'sso_exchange_codes', column: 'refresh_token', id: 'code_hash' },
] as const;

/** The seal of each value includes its table, column and row, so that it cannot be moved to another place. */
export const clientSecretContext = (providerId: string) =>
  sealContext('sso_providers', 'client_secret', providerId);

export const identityTokenContext = (column: 'access_token' | 'refresh_token', identityId: string) =>
  sealContext('user_sso_identities', column, identityId);

export const exchangeTokenContext = (codeHash: string) =>
  sealContext('sso_exchange_codes', 'refresh_token', codeHash);
