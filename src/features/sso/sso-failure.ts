import { DASHBOARD_PAGES } from '../dashboard-pages.ts';

/** The page of the dashboard that shows why a sign-in failed (SPEC 7). */
export const loginPageUrl = (baseUrl: string, failure: SsoFailure): string =>
  withFailure(`${baseUrl}${DASHBOARD_PAGES.signIn}`, failure);

/** The page that shows the result to a signed-in person who has linked an identity. */
export const profilePageUrl = (baseUrl: string, failure?: SsoFailure): string =>
  failure === undefined
    ? `${baseUrl}${DASHBOARD_PAGES.profile}?sso=linked`
    : withFailure(`${baseUrl}${DASHBOARD_PAGES.profile}`, failure);

function withFailure(page: string, { error, reason }: SsoFailure): string {
  return `${page}?${new URLSearchParams({ error, reason }).toString()}`;
}

/**
 * The reasons for which a sign-in with an identity provider fails, each with its `error` code of the specification
 * (SPEC 7). Redirect and audit entry contain both, because the error code alone does not show what is wrong. Neither
 * reveals whether a person has an account before the identity provider has proved who the person is.
 */
const ERROR_OF_REASON = {
  session_unknown: 'session_expired',
  provider_changed: 'session_expired',
  domain_not_allowed: 'domain_not_allowed',
  account_unknown: 'user_not_found',
  /** A partner's provider never creates accounts. */
  invitation_required: 'user_not_found',
  default_role_invalid: 'default_role_required',
  not_a_member: 'no_org_access',
  account_disabled: 'no_org_access',
  email_mismatch: 'email_mismatch',
  identity_in_use: 'identity_in_use',
  user_gone: 'user_gone',
  email_missing: 'sso_error',
  email_not_verified: 'sso_error',
  /**
   * The owner of the provider has not proved the domain of the address. The person has an account already, or the
   * provider does not say that the address is verified.
   */
  domain_not_proven: 'sso_error',
  /** The person has more permissions than the person who configured the provider last. */
  configurer_has_less: 'sso_error',
  not_configured: 'sso_error',
  provider_unreachable: 'sso_error',
  /** The provider answered the browser with an error, such as `access_denied`. */
  provider_refused: 'sso_error',
  /** The provider does not know the client, or its secret is wrong. */
  client_refused: 'sso_error',
  certificate_expired: 'sso_error',
  signature_invalid: 'sso_error',
  /** The response is not signed, or its algorithm is too weak, such as SHA-1 or a shared secret. */
  algorithm_not_allowed: 'sso_error',
  /** SAML: the response was made for another address than that of Muster. */
  recipient_mismatch: 'sso_error',
  /** SAML: the provider sends a new NameID for the same person at each sign-in. */
  name_id_not_stable: 'sso_error',
  issuer_mismatch: 'sso_error',
  audience_mismatch: 'sso_error',
  nonce_mismatch: 'sso_error',
  answer_expired: 'sso_error',
  answer_replayed: 'sso_error',
  assertion_encrypted: 'sso_error',
  /** SAML: the provider signs nothing, or only the response around the assertion. */
  assertion_not_signed: 'sso_error',
  answer_invalid: 'sso_error',
  address_not_allowed: 'sso_error',
  partner_inactive: 'sso_error',
  rate_limited: 'sso_error',
  internal: 'sso_error',
} as const;

export type SsoFailureReason = keyof typeof ERROR_OF_REASON;
export type SsoError = (typeof ERROR_OF_REASON)[SsoFailureReason];

export class SsoFailure extends Error {
  readonly reason: SsoFailureReason;

  /** @param detail  for the log only, because it may contain data that the identity provider has sent */
  constructor(reason: SsoFailureReason, detail?: string, options?: { cause?: unknown }) {
    super(detail === undefined ? reason : `${reason}: ${detail}`, options);
    this.name = 'SsoFailure';
    this.reason = reason;
  }

  get error(): SsoError {
    return ERROR_OF_REASON[this.reason];
  }
}
