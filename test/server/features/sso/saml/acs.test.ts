import { expect } from 'chai';
import { answerXml, encoded } from '../../../../support/saml-forge.ts';
import { insertProvider, query } from '../../../../support/sso/sso-support.ts';
import { type Browser, type SamlServer, startSamlServer } from './saml-server.ts';
import { parseXml } from '../../../../../src/features/sso/saml-xml.ts';

const answer = ({ asked }: Browser) => encoded(answerXml(asked));

describe('the address for answers of SAML identity providers', () => {
  let server: SamlServer;

  before(async () => {
    server = await startSamlServer();
  });
  after(() => server.close());

  const stored = async ({ state }: Browser) => {
    const [row] = await query<{ saml_response: string | null }>(
      server.app,
      'select saml_response from sso_sessions where state = ?',
      [state],
    );
    return row?.saml_response;
  };
  const pageOf = (location: string) => new URL(location).pathname;
  const CALLBACK = '/api/v1/sso/callback';
  const EXPIRED = /\/login\?error=session_expired&reason=session_unknown$/;

  it('keeps an answer with its sign-in and sends the browser to the callback, without its cookie', async () => {
    const browser = await server.begin();
    const form = [
      ['SAMLResponse', answer(browser)],
      ['RelayState', browser.state],
    ] as const;
    const { status, location } = await browser.post(form);
    expect(status).to.equal(303);
    expect(pageOf(location)).to.equal(CALLBACK);
    expect(new URL(location).searchParams.get('state')).to.equal(browser.state);
    expect(await stored(browser)).to.equal(form[0][1]);
  });

  it('keeps the first of two answers, and lets a form come twice', async () => {
    const browser = await server.begin();
    const first = answer(browser);
    for (const response of [first, encoded('<other/>')]) {
      const { location } = await browser.post([
        ['SAMLResponse', response],
        ['RelayState', browser.state],
      ]);
      expect(pageOf(location)).to.equal(CALLBACK);
    }
    expect(await stored(browser)).to.equal(first);
    expect(await browser.answered(encoded('<other/>'))).to.equal(undefined);
  });

  it('sends a browser to the login page if no such sign-in is under way', async () => {
    const browser = await server.begin();
    const good = answer(browser);
    const forms: [string, string][][] = [
      [],
      [['SAMLResponse', good]],
      [
        ['SAMLResponse', good],
        ['RelayState', ''],
      ],
      [
        ['SAMLResponse', good],
        ['RelayState', 'x'.repeat(43)],
      ],
      [
        ['SAMLResponse', good],
        ['RelayState', 'x'.repeat(100_000)],
      ],
      [
        ['SAMLResponse', good],
        ['RelayState', '\u0000'],
      ],
      [
        ['SAMLResponse', good],
        ['RelayState', 'https://evil.test/'],
      ],
      [
        ['SAMLResponse', good],
        ['RelayState', browser.state],
        ['RelayState', browser.state],
      ],
    ];
    for (const form of forms) {
      const { status, location } = await browser.post(form);
      expect(status).to.equal(303);
      expect(location).to.match(EXPIRED);
    }
    expect(await stored(browser)).to.equal(null);
  });

  it('sends a browser to the login page after ten minutes, and for a sign-in by another protocol', async () => {
    const late = await server.begin();
    await query(server.app, `update sso_sessions set expires_at = now() where state = ?`, [late.state]);
    const { location } = await late.post([
      ['SAMLResponse', answer(late)],
      ['RelayState', late.state],
    ]);
    expect(location).to.match(EXPIRED);

    const other = await server.begin();
    const [row] = await query<{ org_id: string }>(server.app, 'select org_id from sso_providers limit 1');
    const oidc = await insertProvider(
      server.app,
      { org_id: row?.org_id ?? '' },
      { type: 'oidc', status: 'inactive' },
    );
    await query(server.app, 'update sso_sessions set provider_id = ? where state = ?', [oidc, other.state]);
    const answered = await other.post([
      ['SAMLResponse', answer(other)],
      ['RelayState', other.state],
    ]);
    expect(answered.location).to.match(EXPIRED);
  });

  it('lets the callback refuse what is no answer: several, none, too much, or no base64', async () => {
    const noAnswers: string[][] = [
      [],
      [''],
      ['%%%'],
      ['a\u0000b'],
      ['{"a":1}'],
      ['A'.repeat(380_000)],
      ['PGEvPg==', 'PGEvPg=='],
    ];
    for (const values of noAnswers) {
      const browser = await server.begin();
      const { status, location } = await browser.post([
        ...values.map((value) => ['SAMLResponse', value] as const),
        ['RelayState', browser.state],
      ]);
      expect(status).to.equal(303);
      expect(await stored(browser), values.join().slice(0, 20)).to.equal(null);
      const end = await browser.follow(location);
      expect(end.search).to.equal('?error=sso_error&reason=answer_invalid');
    }
  });

  it('refuses a form of a megabyte, and a body that is no form', async () => {
    const browser = await server.begin();
    const { status } = await browser.post([
      ['SAMLResponse', 'A'.repeat(1 << 20)],
      ['RelayState', browser.state],
    ]);
    expect(status).to.equal(413);
    const json = await server.app.call('POST', '/sso/saml/acs', { body: { RelayState: browser.state } });
    expect(json.status).to.equal(415);
  });

  it('uses an answer up with its sign-in', async () => {
    const browser = await server.begin();
    const once = answer(browser);
    expect(await browser.answered(once)).to.equal(undefined);
    expect(await browser.answered(once)).to.equal('session_unknown');
  });
});

describe('the metadata of this service provider', () => {
  it('names the entity ID, the address for answers, and that assertions must be signed', async () => {
    const server = await startSamlServer();
    try {
      const { asked } = await server.begin();
      const { status, headers, body } = await server.app.call('GET', '/sso/saml/metadata');
      expect(status).to.equal(200);
      expect(headers.get('content-type')).to.match(/^application\/samlmetadata\+xml/);
      const entity = parseXml(body, {});
      expect(entity.attributes.get('entityID')).to.equal(asked.audience);
      const [role] = entity.children;
      expect(role?.attributes.get('WantAssertionsSigned')).to.equal('true');
      expect(
        role?.children.map(({ name, text, attributes }) => [name, attributes.get('Location') ?? text]),
      ).to.deep.equal([
        ['NameIDFormat', 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'],
        ['AssertionConsumerService', asked.acsUrl],
      ]);
      const one = await server.app.call('GET', `/sso/saml/metadata?providerId=${server.providerId}`);
      expect(one.status).to.equal(200);
    } finally {
      await server.close();
    }
  });
});
