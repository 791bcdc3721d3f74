import { randomBytes } from 'node:crypto';
import { SignedXml } from 'xml-crypto';
import { type SigningKey, signingKey } from './saml-certificates.ts';

/** Makes answers of a SAML identity provider by hand, good ones and forged ones. */

const EXCLUSIVE = 'http://www.w3.org/2001/10/xml-exc-c14n#';
const SHA = {
  sha1: {
    signature: 'http://www.w3.org/2000/09/xmldsig#rsa-sha1',
    digest: 'http://www.w3.org/2000/09/xmldsig#sha1',
  },
  sha256: {
    signature: 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
    digest: 'http://www.w3.org/2001/04/xmlenc#sha256',
  },
  sha512: {
    signature: 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha512',
    digest: 'http://www.w3.org/2001/04/xmlenc#sha512',
  },
} as const;

/** The sign-in that is answered, and who answers it. */
export interface Asked {
  requestId: string;
  acsUrl: string;
  /** Our entity ID. */
  audience: string;
  /** The provider's entity ID. */
  issuer: string;
}

export type Edit = (xml: string) => string;

/** How an answer differs from a good one. */
export interface Deviation {
  /** Of the assertion before it is signed. */
  assertion?: Edit;
  /** Of the response, which holds the signed assertion, before it is signed itself. */
  response?: Edit;
  /** Of the finished text. */
  finished?: Edit;
  /** What is signed; the assertion when absent. */
  signed?: readonly ('Assertion' | 'Response')[];
  key?: SigningKey;
  algorithms?: { signature?: keyof typeof SHA; digest?: keyof typeof SHA };
}

export const instant = (inSeconds = 0): string => new Date(Date.now() + inSeconds * 1000).toISOString();
export const newXmlId = (): string => `_${randomBytes(16).toString('hex')}`;

/** Replaces text that has to be there, so that no forgery is a good answer by mistake. */
export const replace =
  (found: string | RegExp, by: string): Edit =>
  (xml) => {
    const changed = xml.replace(found, () => by);
    if (changed === xml) throw new Error(`${found} is not in ${xml}`);
    return changed;
  };

export function answerXml(asked: Asked, deviation: Deviation = {}): string {
  const { signed = ['Assertion'], assertion = same, response = same, finished = same } = deviation;
  let inner = assertion(assertionXml(asked));
  if (signed.includes('Assertion')) inner = sign(inner, 'Assertion', deviation);
  let outer = response(responseXml(asked, inner));
  if (signed.includes('Response')) outer = sign(outer, 'Response', deviation);
  return finished(outer);
}

export const encoded = (xml: string): string => Buffer.from(xml).toString('base64');

/** Signs the root of a text, or the first element of that name. The signature stands behind the Issuer. */
export function sign(
  xml: string,
  element: 'Assertion' | 'Response',
  { key = signingKey('signing'), algorithms = {} }: Pick<Deviation, 'key' | 'algorithms'> = {},
): string {
  const { signature = 'sha256', digest = 'sha256' } = algorithms;
  const path = `//*[local-name(.)='${element}']`;
  const signing = new SignedXml({
    privateKey: key.key,
    publicCert: key.certificate,
    signatureAlgorithm: SHA[signature].signature,
    canonicalizationAlgorithm: EXCLUSIVE,
  });
  signing.addReference({
    xpath: path,
    digestAlgorithm: SHA[digest].digest,
    transforms: ['http://www.w3.org/2000/09/xmldsig#enveloped-signature', EXCLUSIVE],
  });
  signing.computeSignature(xml, {
    prefix: 'ds',
    location: { reference: `${path}/*[local-name(.)='Issuer']`, action: 'after' },
  });
  return signing.getSignedXml();
}

const same: Edit = (xml) => xml;

export function responseXml({ requestId, acsUrl, issuer }: Asked, content: string): string {
  return (
    `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="${newXmlId()}" Version="2.0" ` +
    `IssueInstant="${instant()}" Destination="${acsUrl}" InResponseTo="${requestId}">` +
    `<saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">${issuer}</saml:Issuer>` +
    `<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>` +
    `${content}</samlp:Response>`
  );
}

export function assertionXml({ requestId, acsUrl, audience, issuer }: Asked): string {
  return (
    `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="${newXmlId()}" Version="2.0" IssueInstant="${instant()}">` +
    `<saml:Issuer>${issuer}</saml:Issuer>` +
    `<saml:Subject><saml:NameID Format="urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress">ada@example.com</saml:NameID>` +
    `<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">` +
    `<saml:SubjectConfirmationData InResponseTo="${requestId}" Recipient="${acsUrl}" NotOnOrAfter="${instant(300)}"/>` +
    `</saml:SubjectConfirmation></saml:Subject>` +
    `<saml:Conditions NotBefore="${instant(-5)}" NotOnOrAfter="${instant(300)}">` +
    `<saml:AudienceRestriction><saml:Audience>${audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions>` +
    `<saml:AuthnStatement AuthnInstant="${instant()}" SessionIndex="1"><saml:AuthnContext>` +
    `<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>` +
    `</saml:AuthnContext></saml:AuthnStatement>` +
    `<saml:AttributeStatement><saml:Attribute Name="email"><saml:AttributeValue>ada@example.com</saml:AttributeValue></saml:Attribute>` +
    `<saml:Attribute Name="name"><saml:AttributeValue>Ada</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>` +
    `</saml:Assertion>`
  );
}
