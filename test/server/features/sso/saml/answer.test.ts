import { expect } from 'chai';
import { samlFile, signingKey } from '../../../../support/saml-certificates.ts';
import { answerXml, type Deviation, encoded, instant, replace } from '../../../../support/saml-forge.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import { createSamlGround, type SamlGround, type SignIn } from './saml-ground.ts';

const answer = ({ asked }: SignIn, deviation?: Deviation) => encoded(answerXml(asked, deviation));

describe('an answer of a SAML identity provider', () => {
  let app: TestApp;
  let ground: SamlGround;

  before(async () => {
    app = await sharedTestApp();
    ground = await createSamlGround(app);
  });
  after(async () => app.close());

  describe('signs a person in', () => {
    const good: Record<string, Deviation> = {
      'when its assertion is signed': {},
      'when the assertion and the response are signed': { signed: ['Assertion', 'Response'] },
      'with SHA-512': { algorithms: { signature: 'sha512', digest: 'sha512' } },
      'without a Destination and an Issuer of the response': {
        response: (xml) =>
          xml.replace(/ Destination="[^"]*"/, '').replace(/<saml:Issuer xmlns.*?<\/saml:Issuer>/, ''),
      },
      'with spaces between its elements': { assertion: (xml) => xml.replaceAll('><', '>\r\n  <') },
      'with each value on a line of its own': {
        assertion: (xml) =>
          xml.replaceAll(
            /<saml:(AttributeValue|NameID|Issuer|Audience|AuthnContextClassRef)([^>]*)>([^<]+)</g,
            '<saml:$1$2>\n        $3\u00a0\n      <',
          ),
        response: (xml) => xml.replace(/(<saml:Issuer[^>]*>)([^<]+)</, '$1\n  $2\n<'),
      },
      'while clocks are a minute apart': {
        assertion: (xml) =>
          xml
            .replaceAll(/NotOnOrAfter="[^"]*"/g, `NotOnOrAfter="${instant(-30)}"`)
            .replace(/NotBefore="[^"]*"/, `NotBefore="${instant(30)}"`)
            .replace(/IssueInstant="[^"]*"/, `IssueInstant="${instant(30)}"`),
      },
      'with the address that the person came from, which is not compared': {
        assertion: (xml) =>
          xml
            .replace('<saml:SubjectConfirmationData ', '<saml:SubjectConfirmationData Address="192.0.2.1" ')
            .replace('<saml:AuthnContext>', '<saml:SubjectLocality Address="192.0.2.1"/><saml:AuthnContext>'),
      },
      'with elements in the signature that nobody knows': {
        finished: replace('</ds:SignedInfo>', '</ds:SignedInfo><ds:constructor/><ds:toString/>'),
      },
      'with another confirmation beside that of the bearer': {
        assertion: replace(
          '</saml:Subject>',
          '<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"/></saml:Subject>',
        ),
      },
    };
    for (const [title, deviation] of Object.entries(good)) {
      it(title, async () => {
        const signIn = await ground.begin();
        const identity = await signIn.finish(answer(signIn, deviation));
        expect(identity).to.include({ subject: 'ada@example.com', email: 'ada@example.com', name: 'Ada' });
      });
    }
  });

  it('is refused when it cannot be read', async () => {
    const signIn = await ground.begin();
    const unreadable = [
      null,
      '',
      '%%%',
      `${answer(signIn)}*`,
      `===${answer(signIn)}`,
      encoded('hello'),
      encoded('<samlp:Response'),
      Buffer.from([0x3c, 0xff, 0xfe, 0x3e]).toString('base64'),
      // A byte that UTF-8 does not have, where nothing is signed.
      Buffer.from(
        answerXml(signIn.asked, { response: replace(' Version', ' Consent="\u00ff" Version') }),
        'latin1',
      ).toString('base64'),
      Buffer.from(answerXml(signIn.asked), 'utf16le').toString('base64'),
      'A'.repeat(1 << 20),
    ];
    for (const text of unreadable) {
      expect(await signIn.refusal(text), text?.slice(0, 60)).to.equal('answer_invalid');
    }
    const wrapped = answer(signIn).replaceAll(/.{76}/g, '$&\r\n');
    expect(await signIn.refusal(wrapped)).to.equal(undefined);
  });

  it('signs in once: the same assertion again is refused, even if five come at once', async () => {
    const signIn = await ground.begin();
    const once = answer(signIn);
    expect(await signIn.refusal(once)).to.equal(undefined);
    expect(await signIn.refusal(once)).to.equal('answer_replayed');

    const again = answer(signIn);
    const five = await Promise.all(Array.from({ length: 5 }, () => signIn.refusal(again)));
    expect(five.filter((reason) => reason === undefined)).to.have.length(1);
    expect(five.filter((reason) => reason === 'answer_replayed')).to.have.length(4);
  });

  it('of one provider does not use up the assertion of another with the same ID', async () => {
    const [one, other] = [await ground.begin(), await ground.begin()];
    const withId = { assertion: replace(/ID="[^"]+"/, 'ID="_1"') };
    expect(await one.refusal(answer(one, withId))).to.equal(undefined);
    expect(await other.refusal(answer(other, withId))).to.equal(undefined);
  });

  describe('while certificates change', () => {
    it('is accepted with either key when the provider has both certificates', async () => {
      const signIn = await ground.begin({ certificate: samlFile('signing.pem') + samlFile('next.pem') });
      expect(await signIn.refusal(answer(signIn))).to.equal(undefined);
      expect(await signIn.refusal(answer(signIn, { key: signingKey('next') }))).to.equal(undefined);
      expect(await signIn.refusal(answer(signIn, { key: signingKey('foreign') }))).to.equal(
        'signature_invalid',
      );
    });

    it('is refused by name when the only certificate has expired, before anybody goes to the provider', async () => {
      const before = await ground.begin();
      before.provider.certificate = samlFile('expired.pem');
      expect(await before.refusal(answer(before))).to.equal('certificate_expired');
      const begin = ground.begin({ certificate: samlFile('expired.pem') });
      expect(await begin.then(() => undefined, String)).to.match(/certificate_expired/);
    });

    it('is refused when its certificate is not valid yet, or has a weak key', async () => {
      for (const name of ['future.pem', 'weak.pem', 'elliptic.pem']) {
        const begin = ground.begin({ certificate: samlFile(name) });
        expect(await begin.then(() => undefined, String), name).to.match(/not_configured/);
      }
    });
  });
});
