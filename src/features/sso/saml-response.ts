import { SsoFailure } from './sso-failure.ts';
import {
  BEARER,
  NAMESPACE,
  SIGNATURE_ALGORITHMS,
  SUCCESS,
  AUTHENTICATION_METHODS,
  MULTI_FACTOR,
  NAME_ID_FORMAT,
  STANDARD_ATTRIBUTES,
  childrenOf,
  type XmlElement,
  parseXml,
  withDescendants,
  XmlFault,
  type XmlRules,
} from './saml-xml.ts';
import type { AttributeMapping } from './sso.schema.ts';
import { assertedTexts, firstAddress, type AssertedIdentity } from './sso-protocol.ts';

/** The values that a response must contain: those of Muster, of the provider and of the sign-in. */
export interface Expectations {
  /** Our entity ID. */
  audience: string;
  acsUrl: string;
  /** The provider's entity ID. */
  issuer: string;
  requestId: string;
  now: Date;
}

/** How far the clocks of two servers may be apart. */
export const CLOCK_SKEW_MS = 60_000;

/** The maximum size of a response, in bytes of XML. */
const MAX_BYTES = 256 << 10;

/**
 * node-saml parses a response several times, and its time grows with the square of the number of elements. The 60,000
 * elements that fit into the maximum size take two minutes; this number takes a tenth of a second. A response for a
 * person with a thousand groups has fewer.
 */
const LIMITS = { maxBytes: MAX_BYTES, maxElements: 2000, maxAttributes: 6000 };

/** The maximum size in base64, with line breaks. */
export const MAX_BASE64_LENGTH = Math.ceil((MAX_BYTES / 3) * 4 * 1.05);

/**
 * Checks the form of a response and its data outside the assertion, before any costly work. This data is not signed, so
 * these checks can only refuse. Pure.
 * @param base64  the response as it is in the provider's form
 * @returns the XML of the response
 * @throws SsoFailure
 */
export function readResponse(base64: string | null, expected: Expectations): string {
  const xml = decoded(base64 ?? '');
  const response = parseAnswer(xml, LIMITS);
  if (response.namespace !== NAMESPACE.protocol || response.name !== 'Response') {
    throw new SsoFailure('answer_invalid', `the root element is ${response.name}`);
  }
  assertMeantForUs(response, expected);
  assertSuccess(response);
  const assertion = onlyAssertion(response);
  assertAlgorithms(response);
  assertSigned(assertion);
  return xml;
}

function decoded(base64: string): string {
  const packed = base64.length > MAX_BASE64_LENGTH ? '' : base64.replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(packed)) {
    throw new SsoFailure('answer_invalid', 'the response is not base64');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(packed, 'base64'));
  } catch (cause) {
    throw new SsoFailure('answer_invalid', 'the response is not UTF-8', { cause });
  }
}

/** @throws SsoFailure if it is no XML, or more than elements and text */
function parseAnswer(xml: string, limits: XmlRules = {}): XmlElement {
  try {
    return parseXml(xml, { ...limits, isPlain: true });
  } catch (cause) {
    if (!(cause instanceof XmlFault)) throw cause;
    throw new SsoFailure('answer_invalid', `the XML ${cause.message}`, { cause });
  }
}

function assertMeantForUs(response: XmlElement, { acsUrl, issuer, requestId }: Expectations): void {
  // Blanks around a URI mean nothing in XML.
  const destination = response.attributes.get('Destination')?.trim();
  if (destination !== undefined && destination !== acsUrl) {
    throw new SsoFailure('recipient_mismatch', `Destination is ${destination}`);
  }
  const other = childrenOf(response, NAMESPACE.assertion, 'Issuer').find(({ text }) => text !== issuer);
  if (other !== undefined) throw new SsoFailure('issuer_mismatch', `the Issuer is ${other.text}`);
  if (response.attributes.get('InResponseTo') !== requestId) {
    throw new SsoFailure('nonce_mismatch', 'InResponseTo of the response names another request, or none');
  }
}

function assertSuccess(response: XmlElement): void {
  const codes = childrenOf(response, NAMESPACE.protocol, 'Status').flatMap((status) => [
    ...withDescendants(status),
  ]);
  const said = codes
    .filter(({ name }) => name === 'StatusCode' || name === 'StatusMessage')
    .map(({ attributes, text }) => attributes.get('Value') ?? text);
  if (said.length === 0) throw new SsoFailure('answer_invalid', 'the response has no Status');
  if (said[0] !== SUCCESS) throw new SsoFailure('provider_refused', said.join(', '));
}

function onlyAssertion(response: XmlElement): XmlElement {
  const all = [...withDescendants(response)];
  if (all.some(({ name }) => name === 'EncryptedAssertion' || name === 'EncryptedID')) {
    throw new SsoFailure(
      'assertion_encrypted',
      'the identity provider must not encrypt assertions; TLS protects the form',
    );
  }
  // Counted in the whole document, because an attack that moves a signed assertion needs a second assertion.
  const [assertion, second] = all.filter(({ name }) => name === 'Assertion');
  if (assertion === undefined || second !== undefined || !response.children.includes(assertion)) {
    throw new SsoFailure('answer_invalid', 'the response must contain exactly one Assertion');
  }
  const ids = all.flatMap(({ attributes }) => ['ID', 'Id', 'id'].map((name) => attributes.get(name)));
  const known = ids.filter((id) => id !== undefined);
  if (new Set(known).size < known.length) throw new SsoFailure('answer_invalid', 'two elements share an ID');
  return assertion;
}

function assertAlgorithms(response: XmlElement): void {
  for (const { namespace, name, attributes } of withDescendants(response)) {
    if (namespace !== NAMESPACE.signature) continue;
    const algorithm = attributes.get('Algorithm') ?? '';
    if (SIGNATURE_ALGORITHMS.get(name)?.includes(algorithm) === false) {
      throw new SsoFailure('algorithm_not_allowed', `${name} is ${algorithm}`);
    }
  }
}

/**
 * node-saml refuses this as well, but as an invalid signature, and then administrators look for a wrong certificate. Some
 * providers sign only the response until they are told to sign the assertion.
 */
function assertSigned(assertion: XmlElement): void {
  if (childrenOf(assertion, NAMESPACE.signature, 'Signature').length === 0) {
    throw new SsoFailure(
      'assertion_not_signed',
      'the identity provider must sign the assertion itself, not only the response',
    );
  }
}

/** The checked content of a signed assertion. */
export interface Assertion {
  id: string;
  /** From this time on, the assertion is refused because of its age. */
  expiresAt: Date;
  nameId: string;
  nameIdFormat: string | undefined;
  /** How the person has authenticated: AuthnContextClassRef. */
  contextClasses: string[];
  /** In the order of the document. If an attribute occurs twice, it has the values of both. */
  attributes: ReadonlyMap<string, string[]>;
}

/**
 * Makes all checks of an assertion except that of its signature. Pure.
 * @param xml  exactly the text that was signed, in canonical form
 * @throws SsoFailure
 */
export function checkAssertion(xml: string, expected: Expectations): Assertion {
  const assertion = parseAnswer(xml);
  const id = assertion.attributes.get('ID') ?? '';
  if (assertion.namespace !== NAMESPACE.assertion || assertion.name !== 'Assertion' || id === '') {
    throw new SsoFailure('answer_invalid', 'the signed element is not an assertion');
  }
  const issuer = only(assertion, 'Issuer').text;
  if (issuer !== expected.issuer) throw new SsoFailure('issuer_mismatch', `the Issuer is ${issuer}`);
  const issued = timeOf(assertion, 'IssueInstant') ?? Number.NaN;
  const now = expected.now.getTime();
  const expiresAt = issued + MAX_ASSERTION_AGE_MS + CLOCK_SKEW_MS;
  if (!(issued <= now + CLOCK_SKEW_MS && now < expiresAt)) {
    throw new SsoFailure('answer_expired', 'the IssueInstant of the assertion is too old, or in the future');
  }
  assertConditions(only(assertion, 'Conditions'), expected);
  const subject = only(assertion, 'Subject');
  assertConfirmed(subject, expected);
  const nameId = only(subject, 'NameID');
  if (nameId.children.length > 0) throw new SsoFailure('answer_invalid', 'the NameID contains elements');
  return {
    id,
    expiresAt: new Date(expiresAt),
    nameId: nameId.text,
    nameIdFormat: nameId.attributes.get('Format'),
    contextClasses: contextClassesOf(assertion, expected),
    attributes: attributesOf(assertion),
  };
}

/** The time that a sign-in may take (SPEC 2.13). An older assertion cannot belong to it. */
export const MAX_ASSERTION_AGE_MS = 600_000;

function assertConditions(conditions: XmlElement, { audience, now }: Expectations): void {
  assertCurrent(conditions, now);
  const restrictions = childrenOf(conditions, NAMESPACE.assertion, 'AudienceRestriction');
  const known = ['AudienceRestriction', 'OneTimeUse', 'ProxyRestriction'];
  const other = conditions.children.find(({ name }) => !known.includes(name));
  if (other !== undefined) throw new SsoFailure('answer_invalid', `the condition ${other.name} is unknown`);
  const isForUs = (restriction: XmlElement) =>
    childrenOf(restriction, NAMESPACE.assertion, 'Audience').some(({ text }) => text === audience);
  // If there are several restrictions, each has to name Muster.
  if (restrictions.length === 0 || !restrictions.every(isForUs)) {
    const named = restrictions.flatMap(({ children }) => children.map(({ text }) => text));
    throw new SsoFailure(
      'audience_mismatch',
      `the audience of the assertion is ${named.join(', ') || 'not restricted'}`,
    );
  }
}

/** One valid confirmation is enough, because a provider may send several of different kinds. */
function assertConfirmed(subject: XmlElement, expected: Expectations): void {
  const bearers = childrenOf(subject, NAMESPACE.assertion, 'SubjectConfirmation').filter(
    ({ attributes }) => attributes.get('Method') === BEARER,
  );
  const failures = bearers.map((bearer) => confirmationFailure(bearer, expected));
  if (failures.includes(undefined)) return;
  throw failures[0] ?? new SsoFailure('answer_invalid', 'the subject has no bearer confirmation');
}

function confirmationFailure(
  confirmation: XmlElement,
  { acsUrl, requestId, now }: Expectations,
): SsoFailure | undefined {
  try {
    const data = only(confirmation, 'SubjectConfirmationData');
    const recipient = data.attributes.get('Recipient');
    if (recipient !== acsUrl) {
      return new SsoFailure('recipient_mismatch', `the Recipient is ${recipient ?? 'missing'}`);
    }
    // The response has InResponseTo as well, but it is not signed. Without this check, an attacker could put an
    // assertion that answers no request into a response that names our request.
    if (data.attributes.get('InResponseTo') !== requestId) {
      return new SsoFailure('nonce_mismatch', 'InResponseTo of the assertion names another request, or none');
    }
    if (!data.attributes.has('NotOnOrAfter') || data.attributes.has('NotBefore')) {
      return new SsoFailure('answer_invalid', 'a bearer confirmation needs NotOnOrAfter, and no NotBefore');
    }
    assertCurrent(data, now);
    return undefined;
  } catch (error) {
    if (error instanceof SsoFailure) return error;
    throw error;
  }
}

function contextClassesOf(assertion: XmlElement, { now }: Expectations): string[] {
  const statements = childrenOf(assertion, NAMESPACE.assertion, 'AuthnStatement');
  if (statements.length === 0) throw new SsoFailure('answer_invalid', 'the assertion has no AuthnStatement');
  return statements.flatMap((statement) => {
    const end = timeOf(statement, 'SessionNotOnOrAfter');
    if (end !== undefined && !(now.getTime() - CLOCK_SKEW_MS < end)) {
      throw new SsoFailure('answer_expired', 'the session at the provider has ended');
    }
    return childrenOf(statement, NAMESPACE.assertion, 'AuthnContext')
      .flatMap((context) => childrenOf(context, NAMESPACE.assertion, 'AuthnContextClassRef'))
      .map(({ text }) => text);
  });
}

function attributesOf(assertion: XmlElement): Map<string, string[]> {
  const attributes = new Map<string, string[]>();
  for (const attribute of childrenOf(assertion, NAMESPACE.assertion, 'AttributeStatement').flatMap(
    (statement) => childrenOf(statement, NAMESPACE.assertion, 'Attribute'),
  )) {
    const name = attribute.attributes.get('Name');
    if (name === undefined) continue;
    // A value that contains elements, such as a NameID, has no text of its own.
    const values = childrenOf(attribute, NAMESPACE.assertion, 'AttributeValue')
      .map(({ text }) => text)
      .filter((text) => text !== '');
    attributes.set(name, [...(attributes.get(name) ?? []), ...values]);
  }
  return attributes;
}

/** Throws unless it is now between `NotBefore` and `NotOnOrAfter`, if they are given. */
function assertCurrent(element: XmlElement, now: Date): void {
  const begin = timeOf(element, 'NotBefore') ?? Number.NEGATIVE_INFINITY;
  const end = timeOf(element, 'NotOnOrAfter') ?? Number.POSITIVE_INFINITY;
  const at = now.getTime();
  if (!(begin <= at + CLOCK_SKEW_MS && at - CLOCK_SKEW_MS < end)) {
    throw new SsoFailure('answer_expired', `${element.name}: not valid at ${now.toISOString()}`);
  }
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** NaN for a time that cannot be parsed or has no time zone. Every comparison with NaN is false, so it is refused. */
function timeOf({ attributes }: XmlElement, name: string): number | undefined {
  const text = attributes.get(name);
  if (text === undefined) return undefined;
  return TIME.test(text) ? Date.parse(text) : Number.NaN;
}

function only(parent: XmlElement, name: string): XmlElement {
  const [element, second] = childrenOf(parent, NAMESPACE.assertion, name);
  if (element === undefined || second !== undefined) {
    throw new SsoFailure('answer_invalid', `${parent.name} must contain exactly one ${name}`);
  }
  return element;
}

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
