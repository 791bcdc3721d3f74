import { SsoFailure } from '../flow/sso-failure.ts';
import type { Expectations } from './expectations.ts';
import { NAMESPACE, SIGNATURE_ALGORITHMS, SUCCESS } from './names.ts';
import { childrenOf, parseXml, withDescendants, type XmlElement, XmlFault, type XmlRules } from './xml.ts';

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
  assertOneAssertion(response);
  assertSignatures(response);
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

/** @throws SsoFailure where it is no XML, or more than elements and text */
export function parseAnswer(xml: string, limits: XmlRules = {}): XmlElement {
  try {
    return parseXml(xml, { ...limits, isPlain: true });
  } catch (cause) {
    if (!(cause instanceof XmlFault)) throw cause;
    throw new SsoFailure('answer_invalid', `the XML ${cause.message}`, { cause });
  }
}

function assertMeantForUs(response: XmlElement, { acsUrl, issuer, requestId }: Expectations): void {
  const destination = response.attributes.get('Destination');
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

function assertOneAssertion(response: XmlElement): void {
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
}

function assertSignatures(response: XmlElement): void {
  for (const { namespace, name, attributes } of withDescendants(response)) {
    if (namespace !== NAMESPACE.signature) continue;
    const algorithm = attributes.get('Algorithm') ?? '';
    if (SIGNATURE_ALGORITHMS.get(name)?.includes(algorithm) === false) {
      throw new SsoFailure('algorithm_not_allowed', `${name} is ${algorithm}`);
    }
  }
}
