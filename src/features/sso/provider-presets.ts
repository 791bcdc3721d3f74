import type { SsoProvider } from './sso.model.ts';
import type { AttributeMapping } from './sso.schema.ts';

/**
 * The default settings for a well-known identity provider (SPEC 2.11). `{…}` is a placeholder that each customer
 * replaces.
 */
export interface Preset {
  id: string;
  type: SsoProvider['type'];
  name: string;
  issuer?: string;
  scopes?: string;
  authorizationUrl?: string;
  tokenUrl?: string;
  userInfoUrl?: string;
  jwksUrl?: string;
  ssoUrl?: string;
  attributeMapping: AttributeMapping;
}

const CLAIMS = { email: 'email', name: 'name', firstName: 'given_name', lastName: 'family_name' };
const STANDARD_URI = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims';
const STANDARD_ATTRIBUTES = {
  email: `${STANDARD_URI}/emailaddress`,
  name: `${STANDARD_URI}/name`,
  firstName: `${STANDARD_URI}/givenname`,
  lastName: `${STANDARD_URI}/surname`,
};

export const DEFAULT_SCOPES = 'openid profile email';

const oidc = (preset: Omit<Preset, 'type' | 'attributeMapping'>): Preset => ({
  scopes: DEFAULT_SCOPES,
  attributeMapping: CLAIMS,
  ...preset,
  type: 'oidc',
});

export const PRESETS: readonly Preset[] = [
  oidc({
    id: 'azure-ad',
    name: 'Microsoft Entra ID',
    issuer: 'https://login.microsoftonline.com/{tenant}/v2.0',
  }),
  {
    ...oidc({
      id: 'okta',
      name: 'Okta',
      issuer: 'https://{domain}.okta.com',
      scopes: `${DEFAULT_SCOPES} groups`,
    }),
    attributeMapping: { ...CLAIMS, groups: 'groups' },
  },
  oidc({
    id: 'google',
    name: 'Google Workspace',
    issuer: 'https://accounts.google.com',
    authorizationUrl: 'https://accounts.google.com/o/oauth2/v2/auth',
    tokenUrl: 'https://oauth2.googleapis.com/token',
    userInfoUrl: 'https://openidconnect.googleapis.com/v1/userinfo',
    jwksUrl: 'https://www.googleapis.com/oauth2/v3/certs',
  }),
  oidc({ id: 'auth0', name: 'Auth0', issuer: 'https://{domain}.auth0.com' }),
  {
    id: 'azure-ad-saml',
    type: 'saml',
    name: 'Microsoft Entra ID (SAML)',
    ssoUrl: 'https://login.microsoftonline.com/{tenant}/saml2',
    attributeMapping: {
      ...STANDARD_ATTRIBUTES,
      groups: 'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups',
    },
  },
  {
    id: 'okta-saml',
    type: 'saml',
    name: 'Okta (SAML)',
    ssoUrl: 'https://{domain}.okta.com/app/{appId}/sso/saml',
    attributeMapping: {
      email: 'email',
      name: 'name',
      firstName: 'firstName',
      lastName: 'lastName',
      groups: 'groups',
    },
  },
  {
    id: 'onelogin-saml',
    type: 'saml',
    name: 'OneLogin (SAML)',
    ssoUrl: 'https://{domain}.onelogin.com/trust/saml2/http-post/sso/{appId}',
    attributeMapping: {
      email: 'User.email',
      name: 'User.name',
      firstName: 'User.FirstName',
      lastName: 'User.LastName',
      groups: 'User.groups',
    },
  },
  {
    id: 'adfs-saml',
    type: 'saml',
    name: 'Active Directory Federation Services (SAML)',
    ssoUrl: 'https://{adfs-server}/adfs/ls',
    attributeMapping: { ...STANDARD_ATTRIBUTES, groups: 'http://schemas.xmlsoap.org/claims/Group' },
  },
  {
    id: 'google-saml',
    type: 'saml',
    name: 'Google Workspace (SAML)',
    ssoUrl: 'https://accounts.google.com/o/saml2/idp?idpid={idpId}',
    attributeMapping: {
      email: 'email',
      name: 'name',
      firstName: 'first_name',
      lastName: 'last_name',
      groups: 'groups',
    },
  },
];

/** The names in braces that a customer has to replace, such as `tenant`. */
export const placeholdersIn = (url: string): string[] =>
  [...url.matchAll(/\{([^{}]*)\}/g)].map(([, name = '']) => name);

export const findPreset = (id: string): Preset | undefined => PRESETS.find((preset) => preset.id === id);

export const listPresets = () => ({
  data: PRESETS.map((preset) => ({
    ...preset,
    placeholders: placeholdersIn(`${preset.issuer ?? ''}${preset.ssoUrl ?? ''}`),
  })),
});

export type PresetDefaults = Partial<Omit<Preset, 'id' | 'type' | 'name'>>;

/** The settings that a preset gives to a new provider. URLs with placeholders are left out. */
export function defaultsOf({ id: _id, type: _type, name: _name, ...settings }: Preset): PresetDefaults {
  const { issuer = '', ssoUrl = '' } = settings;
  if (placeholdersIn(issuer).length > 0) delete settings.issuer;
  if (placeholdersIn(ssoUrl).length > 0) delete settings.ssoUrl;
  return settings;
}
