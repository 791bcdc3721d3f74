import { BaseModel } from '../../../platform/db/base-model.ts';
import type { AttributeMapping } from './attribute-mapping.ts';

export const PROVIDER_TYPES = ['oidc', 'saml'] as const;
export const PROVIDER_STATUSES = ['inactive', 'testing', 'active'] as const;
export const TOKEN_AUTH_METHODS = ['client_secret_basic', 'client_secret_post'] as const;

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
  /** The permissions of whoever has configured it last. Null if that was before they were noted. */
  declare configuredPermissions: string[] | null;
  declare createdBy: string | null;
}

/** The owner of a provider: one of the two is set. */
export type Owned = Pick<SsoProvider, 'orgId' | 'partnerId'>;
