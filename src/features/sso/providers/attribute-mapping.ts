import { z } from 'zod';
import { text } from '../../../platform/http/fields.ts';

const Claim = text(255);

/** The names of the claims (OpenID Connect) or attributes (SAML) that contain address, name and groups (SPEC 2.11). */
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
