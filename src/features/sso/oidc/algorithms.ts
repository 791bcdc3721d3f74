/**
 * The permitted signature algorithms of ID tokens. All are asymmetric. With a shared secret, everybody who knows the
 * secret could sign, and an attacker could use a public key as the secret.
 */
export const SIGNING_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;
