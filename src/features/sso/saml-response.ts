import { SsoFailure } from '../flow/sso-failure.ts';
import { CLOCK_SKEW_MS, type Expectations, MAX_ASSERTION_AGE_MS } from './expectations.ts';
import { BEARER, NAMESPACE } from './names.ts';
import { parseAnswer } from './response.ts';
import { childrenOf, type XmlElement } from './xml.ts';

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

/** Throws unless it is now between `NotBefore` and `NotOnOrAfter`, where they are given. */
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
