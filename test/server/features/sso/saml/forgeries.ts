import type { SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import { signingKey } from '../../../../support/saml-certificates.ts';
import { type Deviation, type Edit, instant, replace } from '../../../../support/saml-forge.ts';
import { SAMLSTORM, WRAPPED } from './wrapped.ts';

/** Answers that differ from a good one in exactly one thing, by why they have to be refused. */
export type Forgeries = Partial<Record<SsoFailureReason, Readonly<Record<string, Deviation>>>>;

const assertion = (edit: Edit): Deviation => ({ assertion: edit });
const response = (edit: Edit): Deviation => ({ response: edit });
const finished = (edit: Edit): Deviation => ({ finished: edit });
const drop = (found: string | RegExp): Edit => replace(found, '');
const confirmation = (edit: Edit): Deviation =>
  assertion((xml) => xml.replace(/<saml:SubjectConfirmationData[^>]*>/, edit));
const conditions = (edit: Edit): Deviation => assertion((xml) => xml.replace(/<saml:Conditions[^>]*>/, edit));
const nameId = (content: string): Deviation =>
  assertion(replace('>ada@example.com</saml:NameID>', `>${content}</saml:NameID>`));
const declared = (declarations: string): Deviation =>
  finished((xml) => `<!DOCTYPE Response ${declarations}>${xml}`);
const failed = (status: string): Deviation => ({
  signed: [],
  response: (xml) =>
    replace(
      '"urn:oasis:names:tc:SAML:2.0:status:Success"/>',
      `"urn:oasis:names:tc:SAML:2.0:status:Responder"><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:${status}"/></samlp:StatusCode>`,
    )(drop(/<saml:Assertion .*<\/saml:Assertion>/)(xml)),
});

const SHA256 = 'http://www.w3.org/2001/04/xmlenc#sha256';
const RSA_SHA256 = 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256';
const ENVELOPED = '<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/>';

const MANY_ATTRIBUTES = Array.from({ length: 101 }, (_, i) => `a${i}=""`).join(' ');

export const FORGERIES: Forgeries = {
  assertion_not_signed: {
    'no signature': { signed: [] },
    'a signature of the response only': { signed: ['Response'] },
  },
  signature_invalid: {
    "another provider's key and certificate": { key: signingKey('foreign') },
    'another NameID after signing': finished(
      replace('ada@example.com</saml:NameID>', 'eve@example.com</saml:NameID>'),
    ),
    'another attribute after signing': finished(
      replace('>ada@example.com</saml:AttributeValue>', '>eve@example.com</saml:AttributeValue>'),
    ),
    'an attribute added after signing': finished(
      replace(
        '</saml:AttributeStatement>',
        '<saml:Attribute Name="groups"><saml:AttributeValue>admins</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>',
      ),
    ),
    'an empty SignatureValue': finished(replace(/<ds:SignatureValue>[^<]*/, '<ds:SignatureValue>')),
    'a signature without references': finished(drop(/<ds:Reference .*<\/ds:Reference>/)),
    'a signature of another element': finished(replace(/URI="#[^"]+"/, 'URI="#nothing"')),
    'a signature of the whole document': finished(replace(/URI="#[^"]+"/, 'URI=""')),
    'the signature twice': finished((xml) =>
      xml.replace(/<ds:Signature .*<\/ds:Signature>/, (one) => one + one),
    ),
    'SAMLStorm: two SignedInfo': SAMLSTORM['two SignedInfo'] ?? {},
  },
  algorithm_not_allowed: {
    'a signature with SHA-1': { algorithms: { signature: 'sha1' } },
    'a digest with SHA-1': { algorithms: { digest: 'sha1' } },
    'SHA-1 spelled with a character reference': {
      algorithms: { signature: 'sha1' },
      finished: replace('#rsa-sha1', '#rsa-sh&#97;1'),
    },
    'HMAC with the certificate as its key': finished(
      replace(RSA_SHA256, 'http://www.w3.org/2000/09/xmldsig#hmac-sha1'),
    ),
    'no digest algorithm': finished(replace(` Algorithm="${SHA256}"`, '')),
    'a transform by XSLT': finished(
      replace(
        ENVELOPED,
        `${ENVELOPED}<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>`,
      ),
    ),
    'a transform by XPath': finished(
      replace(
        ENVELOPED,
        `${ENVELOPED}<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"/>`,
      ),
    ),
  },
  audience_mismatch: {
    'another audience': assertion(replace(/<saml:Audience>[^<]*/, '<saml:Audience>https://other.example')),
    'an audience that begins like ours': assertion(replace('</saml:Audience>', '.evil.test</saml:Audience>')),
    'no audience': assertion(drop(/<saml:AudienceRestriction>.*<\/saml:AudienceRestriction>/)),
    'a second restriction to another audience': assertion(
      replace(
        '</saml:Conditions>',
        '<saml:AudienceRestriction><saml:Audience>https://other.example</saml:Audience></saml:AudienceRestriction></saml:Conditions>',
      ),
    ),
  },
  recipient_mismatch: {
    'another Recipient': confirmation(replace(/Recipient="[^"]*"/, 'Recipient="https://other.example/acs"')),
    'no Recipient': confirmation(drop(/Recipient="[^"]*"/)),
    'another Destination': response(
      replace(/Destination="[^"]*"/, 'Destination="https://other.example/acs"'),
    ),
  },
  issuer_mismatch: {
    'another Issuer of the assertion': assertion(
      replace(/<saml:Issuer>[^<]*/, '<saml:Issuer>https://other.example'),
    ),
    'another Issuer of the response': response(
      replace(/(?<=:assertion">)https:\/\/idp.example.com\/metadata/, 'https://other.example'),
    ),
  },
  nonce_mismatch: {
    'no InResponseTo in the response': response(drop(/ InResponseTo="[^"]*"(?=>)/)),
    'a foreign InResponseTo in the response': response(
      replace(/InResponseTo="[^"]*"(?=>)/, 'InResponseTo="_other"'),
    ),
    'an assertion that answers no request, in a response that answers ours': confirmation(
      drop(/InResponseTo="[^"]*"/),
    ),
    'an assertion that answers a request of another browser': confirmation(
      replace(/InResponseTo="[^"]*"/, 'InResponseTo="_other"'),
    ),
  },
  answer_expired: {
    'conditions that have expired': conditions(
      replace(/NotOnOrAfter="[^"]*"/, `NotOnOrAfter="${instant(-62)}"`),
    ),
    'conditions that begin later': conditions(replace(/NotBefore="[^"]*"/, `NotBefore="${instant(86_400)}"`)),
    'conditions without a zone of time': conditions(
      replace(/NotOnOrAfter="[^"]*"/, 'NotOnOrAfter="2126-01-01T00:00:00"'),
    ),
    'a confirmation that has expired': confirmation(
      replace(/NotOnOrAfter="[^"]*"/, `NotOnOrAfter="${instant(-62)}"`),
    ),
    'an assertion of an hour ago': assertion(
      replace(/IssueInstant="[^"]*"/, `IssueInstant="${instant(-3600)}"`),
    ),
    'an assertion of tomorrow': assertion(
      replace(/IssueInstant="[^"]*"/, `IssueInstant="${instant(86_400)}"`),
    ),
    'an assertion that does not say when it was made': assertion(drop(/IssueInstant="[^"]*"/)),
    'a session that has ended at the provider': assertion(
      replace('<saml:AuthnStatement ', `<saml:AuthnStatement SessionNotOnOrAfter="${instant(-62)}" `),
    ),
  },
  provider_refused: {
    'that the person could not sign in': failed('AuthnFailed'),
    'that the request is denied': failed('RequestDenied'),
    'a status that is not success, and an assertion': response(replace('status:Success', 'status:Requester')),
  },
  assertion_encrypted: {
    'an encrypted assertion': {
      signed: [],
      response: (xml) =>
        xml.replace(
          /<saml:Assertion .*<\/saml:Assertion>/,
          '<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"><xenc:EncryptedData xmlns:xenc="http://www.w3.org/2001/04/xmlenc#"/></saml:EncryptedAssertion>',
        ),
    },
    'an encrypted NameID': assertion(replace(/<saml:NameID.*<\/saml:NameID>/, '<saml:EncryptedID/>')),
  },
  name_id_not_stable: {
    'a transient NameID': assertion(replace('1.1:nameid-format:emailAddress', '2.0:nameid-format:transient')),
  },
  answer_invalid: {
    'a holder-of-key confirmation': assertion(replace('cm:bearer', 'cm:holder-of-key')),
    'no SubjectConfirmation': assertion(drop(/<saml:SubjectConfirmation .*<\/saml:SubjectConfirmation>/)),
    'no SubjectConfirmationData': assertion(drop(/<saml:SubjectConfirmationData[^>]*>/)),
    'a confirmation without an end': confirmation(drop(/NotOnOrAfter="[^"]*"/)),
    'a confirmation with a beginning': confirmation(
      replace(' NotOnOrAfter', ` NotBefore="${instant(-5)}" NotOnOrAfter`),
    ),
    'no Subject': assertion(drop(/<saml:Subject>.*<\/saml:Subject>/)),
    'no NameID': assertion(drop(/<saml:NameID.*<\/saml:NameID>/)),
    'two NameIDs': assertion((xml) => xml.replace(/<saml:NameID.*<\/saml:NameID>/, (one) => one + one)),
    'an empty NameID': nameId(' '),
    'a NameID of 256 characters': nameId('a'.repeat(256)),
    'a NameID with an element in it': nameId('ada@example.com<saml:x/>'),
    'a NameID with a comment in it': nameId('ada@example.com<!-- -->.evil.test'),
    'a processing instruction': finished(replace('<samlp:Status>', '<?php ?><samlp:Status>')),
    'a NameID in CDATA': nameId('<![CDATA[ada@example.com]]>'),
    'no Conditions': assertion(drop(/<saml:Conditions.*<\/saml:Conditions>/)),
    'a condition that nobody knows': assertion(
      replace('</saml:Conditions>', '<saml:Condition/></saml:Conditions>'),
    ),
    'no AuthnStatement': assertion(drop(/<saml:AuthnStatement.*<\/saml:AuthnStatement>/)),
    'no Status': response(drop(/<samlp:Status>.*<\/samlp:Status>/)),
    'two assertions, both signed': finished((xml) =>
      xml.replace(
        /<saml:Assertion .*<\/saml:Assertion>/,
        (one) => one + one.replaceAll(/_[0-9a-f]{32}/g, '$&2'),
      ),
    ),
    'an assertion below another element': response((xml) =>
      xml.replace(
        /<saml:Assertion .*<\/saml:Assertion>/,
        (one) => `<samlp:Extensions>${one}</samlp:Extensions>`,
      ),
    ),
    'another root element': finished((xml) => xml.replaceAll('samlp:Response', 'samlp:LogoutResponse')),
    'another namespace': finished(replace('SAML:2.0:protocol', 'SAML:1.1:protocol')),
    'a document type': declared(''),
    'an external entity': declared('[<!ENTITY file SYSTEM "file:///etc/passwd">]'),
    'an external parameter entity': declared('[<!ENTITY % remote SYSTEM "http://127.0.0.1:9/x"> %remote;]'),
    'a billion laughs': declared(
      `[<!ENTITY a0 "ha">${Array.from({ length: 30 }, (_, i) => `<!ENTITY a${i + 1} "&a${i};&a${i};">`).join('')}]`,
    ),
    'an entity with the name of what every object has': finished(replace('>Ada<', '>&constructor;<')),
    'an entity that nobody declared': finished(replace('>Ada<', '>&ada;<')),
    'a character that XML does not have': finished(replace('>Ada<', '>Ada&#0;<')),
    'an element behind its end': finished((xml) => `${xml}<a/>`),
    'a second document behind it': finished((xml) => xml + xml),
    'elements in elements, a thousand deep': finished(
      replace(
        '<samlp:Status>',
        `<samlp:Extensions>${'<a>'.repeat(1000)}${'</a>'.repeat(1000)}</samlp:Extensions><samlp:Status>`,
      ),
    ),
    'more than 256 kB': finished(
      replace(
        '<samlp:Status>',
        `<samlp:Extensions>${'a'.repeat(257 << 10)}</samlp:Extensions><samlp:Status>`,
      ),
    ),
    'more elements than anybody needs': finished(
      replace(
        '<samlp:Status>',
        `<samlp:Extensions>${'<a/>'.repeat(60_000)}</samlp:Extensions><samlp:Status>`,
      ),
    ),
    'more attributes than anybody needs': finished(
      replace(
        '<samlp:Status>',
        `<samlp:Extensions>${`<a ${MANY_ATTRIBUTES}/>`.repeat(60)}</samlp:Extensions><samlp:Status>`,
      ),
    ),
    'SAMLStorm: a comment in DigestValue': SAMLSTORM['a comment in DigestValue'] ?? {},
    ...Object.fromEntries(
      Object.entries(WRAPPED).map(([shape, deviation]) => [`signature wrapping ${shape}`, deviation]),
    ),
  },
};
