import { expect } from 'chai';
import fc from 'fast-check';
import { type SamlSignIn, verifyResponse } from '../../../../../src/features/sso/saml.ts';
import { checkAssertion, readResponse, identityOf } from '../../../../../src/features/sso/saml-response.ts';
import { SsoFailure } from '../../../../../src/features/sso/sso-failure.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';
import { answerXml, encoded } from '../../../../support/saml-forge.ts';

const BASE = 'https://rmm.example.com/api/v1/sso/saml';
const ISSUER = 'https://idp.example.com/metadata';
const SIGN_IN: SamlSignIn = {
  entityId: `${BASE}/metadata`,
  acsUrl: `${BASE}/acs`,
  ssoUrl: 'https://idp.example.com/sso',
  certificates: [samlFile('signing.pem')],
  requestId: '_request',
};

/** Who an answer signs in; `refused` where it is refused with a reason. */
async function signedIn(xml: string): Promise<unknown> {
  const { entityId: audience, acsUrl, requestId } = SIGN_IN;
  const expected = { audience, acsUrl, requestId, issuer: ISSUER, now: new Date() };
  try {
    const read = readResponse(encoded(xml), expected);
    const assertion = await verifyResponse(SIGN_IN, read, (signed) => checkAssertion(signed, expected));
    return identityOf(assertion, { email: 'email', name: 'name' });
  } catch (error) {
    if (error instanceof SsoFailure) return 'refused';
    throw error;
  }
}

/** From the first tag at or behind a place to the end of its element. */
function elementAt(xml: string, place: number): [number, number] {
  const found = [...xml.matchAll(/<([a-z]+:[A-Za-z0-9]+)[^>]*>/g)];
  const { 0: tag, 1: name, index } = found[place % found.length] ?? { 0: '', 1: '', index: 0 };
  return [
    index,
    tag.endsWith('/>') ? index + tag.length : xml.indexOf(`</${name}>`, index) + `</${name}>`.length,
  ];
}

type Change = (xml: string, at: number, to: number) => string;
const CHANGES: Readonly<Record<string, Change>> = {
  'another character': (xml, at, to) =>
    xml.slice(0, at) + String.fromCharCode(32 + (to % 95)) + xml.slice(at + 1),
  'a piece left out': (xml, at, to) => xml.slice(0, at) + xml.slice(at + 1 + (to % 200)),
  'a piece twice': (xml, at, to) => xml.slice(0, at + (to % 200)) + xml.slice(at),
  'an element left out': (xml, at) => {
    const [begin, end] = elementAt(xml, at);
    return xml.slice(0, begin) + xml.slice(end);
  },
  'an element moved': (xml, at, to) => {
    const [begin, end] = elementAt(xml, at);
    const rest = xml.slice(0, begin) + xml.slice(end);
    const [target] = elementAt(`${rest}<x:x/>`, to);
    return rest.slice(0, target) + xml.slice(begin, end) + rest.slice(target);
  },
  'an element about somebody else copied': (xml, at, to) => {
    const [begin, end] = elementAt(xml, at);
    const [target] = elementAt(xml, to);
    return xml.slice(0, target) + xml.slice(begin, end).replaceAll('ada@', 'eve@') + xml.slice(target);
  },
  'an element in another namespace': (xml, at, to) => {
    const [begin, end] = elementAt(xml, at);
    const prefix = ['saml', 'samlp', 'ds', 'x'][to % 4] ?? '';
    return xml.slice(0, begin) + xml.slice(begin, end).replace(/^<[a-z]+:/, `<${prefix}:`) + xml.slice(end);
  },
};

describe('a SAML answer that was changed on its way', () => {
  for (const [title, change] of Object.entries(CHANGES)) {
    it(`signs in the same person or none: ${title}`, async () => {
      const good = answerXml({ ...SIGN_IN, audience: SIGN_IN.entityId, issuer: ISSUER });
      const person = await signedIn(good);
      expect(person).to.include({ subject: 'ada@example.com' });
      await fc.assert(
        fc.asyncProperty(fc.nat(good.length - 1), fc.nat(good.length - 1), async (at, to) => {
          const found = await signedIn(change(good, at, to));
          if (found !== 'refused') expect(found).to.deep.equal(person);
        }),
        { numRuns: 60 },
      );
    });
  }
});
