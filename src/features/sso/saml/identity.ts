import type { AttributeMapping } from '../providers/attribute-mapping.ts';
import { assertedTexts, firstAddress } from '../flow/asserted-text.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import type { Assertion } from './assertion.ts';
import { AUTHENTICATION_METHODS, MULTI_FACTOR, NAME_ID_FORMAT, STANDARD_ATTRIBUTES } from './names.ts';

const MAX_SUBJECT_LENGTH = 255;

/**
 * Who an assertion is about (SPEC 2.11): by the names of the provider's mapping, then by the standard ones. Pure.
 * @throws SsoFailure
 */
export function identityOf(assertion: Assertion, mapping: AttributeMapping): AssertedIdentity {
  const { nameId, nameIdFormat, attributes, contextClasses } = assertion;
  if (nameIdFormat === NAME_ID_FORMAT.transient) {
    throw new SsoFailure('name_id_not_stable', 'the NameID is transient, so it changes with each sign-in');
  }
  if (nameId === '' || nameId.length > MAX_SUBJECT_LENGTH) {
    throw new SsoFailure('answer_invalid', `the NameID must have 1 to ${MAX_SUBJECT_LENGTH} characters`);
  }
  const listsOf = (field: keyof typeof STANDARD_ATTRIBUTES): string[][] =>
    [mapping[field], ...STANDARD_ATTRIBUTES[field]].map((name) => assertedTexts(attributes.get(name ?? '')));
  const valuesOf = (field: keyof typeof STANDARD_ATTRIBUTES): string[] =>
    listsOf(field).find((values) => values.length > 0) ?? [];
  const [[name], [firstName], [lastName]] = [valuesOf('name'), valuesOf('firstName'), valuesOf('lastName')];
  const addresses = [...listsOf('email').flat(), ...(nameIdFormat === NAME_ID_FORMAT.email ? [nameId] : [])];
  const methods = [...contextClasses, ...(attributes.get(AUTHENTICATION_METHODS) ?? [])];
  return {
    subject: nameId,
    email: firstAddress(addresses),
    emailVerified: isUnverified(attributes) ? false : undefined,
    name: name ?? ([firstName, lastName].filter((part) => part !== undefined).join(' ') || undefined),
    mfa: methods.some((method) => MULTI_FACTOR.includes(method)),
    profile: {
      nameId,
      nameIdFormat: nameIdFormat ?? null,
      groups: valuesOf('groups'),
      attributes: Object.fromEntries(attributes),
    },
  };
}

/** No standard attribute says that an address is verified; some providers send one that can say that it is not. */
const isUnverified = (attributes: Assertion['attributes']): boolean =>
  attributes.get('email_verified')?.[0]?.trim().toLowerCase() === 'false';
