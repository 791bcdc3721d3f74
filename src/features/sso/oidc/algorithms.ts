/**
 * The algorithms that an ID token may be signed with. All are asymmetric: with a shared secret, anyone who learns the
 * secret could sign, and a public key could be passed off as one.
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
