/**
 * Why a sign-in with an identity provider fails. `error` is what the specification names (SPEC 7); the reason stands
 * beside it in the redirect and in the audit entry, so that people learn what is wrong. Neither depends on whether a
 * person exists, except after the identity provider has proved who the person is.
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
  /** The provider does not say whether the address is verified, and nobody has proved to own its domain. */
  domain_not_proven: 'sso_error',
  not_configured: 'sso_error',
  provider_unreachable: 'sso_error',
  /** The provider answered the browser with an error, such as `access_denied`. */
  provider_refused: 'sso_error',
  /** The provider does not know the client, or its secret is wrong. */
  client_refused: 'sso_error',
  certificate_expired: 'sso_error',
  signature_invalid: 'sso_error',
  /** The answer is signed with SHA-1, with a shared secret, not at all, or another way that is not strong enough. */
  algorithm_not_allowed: 'sso_error',
  /** SAML: the answer was made for another address than ours. */
  recipient_mismatch: 'sso_error',
  /** SAML: the provider names people by something else at each sign-in. */
  name_id_not_stable: 'sso_error',
  issuer_mismatch: 'sso_error',
  audience_mismatch: 'sso_error',
  nonce_mismatch: 'sso_error',
  answer_expired: 'sso_error',
  answer_replayed: 'sso_error',
  assertion_encrypted: 'sso_error',
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

  /** @param detail  for the log only: it may hold what the identity provider has sent. */
  constructor(reason: SsoFailureReason, detail?: string, options?: { cause?: unknown }) {
    super(detail === undefined ? reason : `${reason}: ${detail}`, options);
    this.name = 'SsoFailure';
    this.reason = reason;
  }

  get error(): SsoError {
    return ERROR_OF_REASON[this.reason];
  }
}
