import { z } from 'zod';

const Claim = z.string().trim().min(1, 'must not be empty').max(255, 'must have at most 255 characters');

/** The names of the claims (OpenID Connect) or attributes (SAML) that say who somebody is (SPEC 2.11). */
export const AttributeMapping = z
  .strictObject({
    email: Claim,
    name: Claim,
    firstName: Claim.optional(),
    lastName: Claim.optional(),
    groups: Claim.optional(),
  })
  .meta({ id: 'SsoAttributeMapping' });
export type AttributeMapping = z.infer<typeof AttributeMapping>;

export const DEFAULT_MAPPING: AttributeMapping = { email: 'email', name: 'name' };
