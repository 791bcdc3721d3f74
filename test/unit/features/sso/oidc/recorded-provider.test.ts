import { expect } from 'chai';
import { z } from 'zod';
import { identityFrom } from '../../../../../src/features/sso/oidc-claims.ts';
import { identify } from '../../../../../src/features/sso/oidc-client.ts';
import {
  type Discovered,
  KeyCache,
  type OidcSettings,
  readDiscovery,
} from '../../../../../src/features/sso/oidc-discovery.ts';
import type { ProviderFetch } from '../../../../../src/features/sso/provider-call.ts';
import { SsoFailure, type SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import { describeRecorded } from '../../../../support/recorded.ts';
import { reasonOf } from '../../../../support/sso/oidc/oidc-fixture.ts';

/** Discovery documents, key sets and answers of real providers, and those that other libraries test themselves with. */

/** What is found, by the issuer that an administrator enters. */
const DISCOVERED: Readonly<Record<string, [issuer: string, Partial<Discovered>]>> = {
  'google-discovery.json': [
    'https://accounts.google.com',
    {
      tokenUrl: 'https://oauth2.googleapis.com/token',
      jwksUrl: 'https://www.googleapis.com/oauth2/v3/certs',
      tokenAuthMethod: 'client_secret_basic',
    },
  ],
  'ms-PingLabs-openid-configuration.json': [
    'https://connect-interop.pinglabs.org:9031',
    {
      authorizationUrl: 'https://connect-interop.pinglabs.org:9031/as/authorization.oauth2',
      userinfoUrl: 'https://connect-interop.pinglabs.org:9031/idp/userinfo.openid',
    },
  ],
  'okta-well-known-shared-resource.json': [
    'https://auth-js-test.okta.com/oauth2/aus8aus76q8iphupD0h7',
    { tokenUrl: 'https://auth-js-test.okta.com/oauth2/aus8aus76q8iphupD0h7/v1/token', userinfoUrl: null },
  ],
  'identityserver-discovery.json': [
    'https://demo.identityserver.io',
    { jwksUrl: 'https://demo.identityserver.io/.well-known/jwks', sendsIssuer: false },
  ],
  'identityserver-discovery_mtls.json': [
    'https://demo.identityserver.io',
    { tokenUrl: 'https://demo.identityserver.io/connect/token' },
  ],
};

/** Why the others are refused. */
const REFUSED: readonly [SsoFailureReason, file: RegExp, issuer?: string][] = [
  // Entra's address for all tenants: no token names this issuer.
  ['issuer_mismatch', /entra-common-v1/, 'https://sts.windows.net/common'],
  ['issuer_mismatch', /entra-common-v2/, 'https://login.microsoftonline.com/common/v2.0'],
  ['issuer_mismatch', /entra-common-v2/, 'https://login.microsoftonline.com/{tenantid}/v2.0'],
  // Google's own, of 2015.
  ['issuer_mismatch', /google-discovery-go-oidc|ms-google/, 'https://accounts.google.com'],
  ['answer_invalid', /google-discovery-go-oidc|ms-google/, 'accounts.google.com'],
  ['answer_invalid', /discovery_variable/, 'https://demo.identityserver.io'],
  ['answer_invalid', /duplicate-names/, 'https://idp.example.com'],
  // Without keys, with a file as their address, or without a token endpoint.
  ['answer_invalid', /ping-discovery|ms-OpenIdConnectMetadata|okta-well-known\.json/],
];

/** How many keys of a set can verify a signature. */
const USABLE_KEYS: Readonly<Record<string, number>> = {
  'entra-common-v1-jwks.json': 7,
  'entra-common-v2-jwks.json': 10,
  'identityserver-discovery_jwks.json': 1,
  'ms-JsonWebKeySetBadBase64Data.json': 2,
  'ms-JsonWebKeySetBadX509Data.json': 2,
  'ms-JsonWebKeySetEnd2End.json': 2,
  'ms-JsonWebKeySetEnd2EndEC.json': 1,
  'ms-PingLabsJWKS.json': 3,
  'okta-keys.json': 1,
  // `alg` is no algorithm of a signature, or what the key needs is missing.
  'ms-JsonWebKeySet.json': 0,
  'ms-JsonWebKeySetBadRsaDataMissingComponent.json': 0,
  'ms-JsonWebKeySetSingleX509Data.json': 0,
  'ms-JsonWebKeySetUnrecognizedKty.json': 0,
};

const Document = z.looseObject({ issuer: z.string() });
const KeySet = z.object({
  keys: z.array(z.looseObject({ kid: z.string().optional(), kty: z.string().optional() })),
});
const Clouds = z.object({ endpointMetadata: z.record(z.string(), z.looseObject({})) });
const Answer = z.object({
  name: z.string(),
  answer: z.object({ status: z.number(), response: z.unknown() }),
});

describeRecorded('sso/oidc', 'a recorded OpenID provider', ({ files, text }) => {
  const json = (file: string): unknown => JSON.parse(text(file).replace(/^\uFEFF/, ''));
  const documents = files.filter((file) =>
    /discovery(?!_jwks)|openid-config|ConnectMetadata|okta-well/.test(file),
  );

  it('is set up by its discovery document', async () => {
    for (const [file, [issuer, expected]] of Object.entries(DISCOVERED)) {
      const found = await readDiscovery(answering(text(file)), issuer);
      expect(found, file).to.include({ issuer, ...expected });
    }
  });

  it('is refused with the reason if its document cannot be used', async () => {
    const seen = new Set(Object.keys(DISCOVERED));
    for (const [reason, pattern, issuer] of REFUSED) {
      for (const file of documents.filter((name) => pattern.test(name))) {
        const entered = issuer ?? Document.parse(json(file)).issuer;
        expect(await reasonOf(readDiscovery(answering(text(file)), entered)), file).to.equal(reason);
        seen.add(file);
      }
    }
    expect([...seen].sort()).to.deep.equal(documents);
  });

  it('is set up in each cloud of Entra, for one tenant', async () => {
    const tenant = '7ceb8e03-bdc5-4509-a136-457526165ec0';
    const { endpointMetadata } = Clouds.parse(json('msal-clouds.json'));
    expect(Object.keys(endpointMetadata)).to.have.length(3);
    for (const [host, document] of Object.entries(endpointMetadata)) {
      const written = JSON.stringify(document).replaceAll('{tenantid}', tenant);
      const { issuer } = Document.parse(JSON.parse(written));
      const found = await readDiscovery(answering(written), issuer);
      expect(new URL(found.tokenUrl).host).to.equal(host);
    }
  });

  it('publishes keys of which the usable ones are found', async () => {
    const sets = files.filter(
      (file) => /jwks|JWKS|KeySet(?!BadUri)|okta-keys/.test(file) && !documents.includes(file),
    );
    const found: Record<string, number> = {};
    for (const file of sets) {
      const { keys } = KeySet.parse(json(file));
      const key = new KeyCache(answering(text(file))).of('https://idp.example.com/keys');
      const attempts = await Promise.allSettled(
        keys.map(async ({ kid, kty }) => {
          const header = { alg: kty === 'EC' ? 'ES256' : 'RS256', ...(kid === undefined ? {} : { kid }) };
          await key(header, { payload: '', signature: '' });
        }),
      );
      found[file] = attempts.filter(({ status }) => status === 'fulfilled').length;
    }
    expect(found).to.deep.equal(USABLE_KEYS);
  });

  it('signs nobody in by an answer that is about something else, or an error', async () => {
    const answers = text('okta-answers.jsonl')
      .trim()
      .split('\n')
      .map((line) => Answer.parse(JSON.parse(line)));
    expect(answers).to.have.length(42);
    for (const { name, answer } of answers) {
      // Without a connection there is no status.
      if (answer.status < 200) continue;
      const body = answer.status === 204 ? null : JSON.stringify(answer.response);
      const reason = await reasonOf(identified(answering(body, answer.status)));
      expect(reason, name).to.equal(reasonOfStatus(answer.status));
    }
  });

  it('names a person in its userinfo response', async () => {
    const tokens = JSON.stringify({ access_token: 'token', token_type: 'Bearer' });
    const outbound: ProviderFetch = {
      fetch: (url) => answering(url.endsWith('/token') ? tokens : text('okta-userinfo.json')).fetch(url),
      assertPermitted: () => Promise.resolve(),
    };
    const { idToken, userinfo } = await identified(outbound);
    expect(identityFrom({ idToken, userinfo }, { email: 'email', name: 'name' })).to.include({
      subject: '00u15ozp26ACQTGHJEBH',
      email: 'samljackson@example.com',
      emailVerified: true,
    });
  });
});

const answering = (body: string | null, status = 200): ProviderFetch => ({
  fetch: () =>
    Promise.resolve(new Response(body, { status, headers: { 'content-type': 'application/json' } })),
  assertPermitted: () => Promise.resolve(),
});

const SETTINGS: OidcSettings = {
  issuer: 'https://idp.example.com',
  clientId: 'client',
  clientSecret: 'secret',
  authorizationUrl: 'https://idp.example.com/authorize',
  tokenUrl: 'https://idp.example.com/token',
  userinfoUrl: 'https://idp.example.com/userinfo',
  jwksUrl: 'https://idp.example.com/keys',
  scopes: [],
  sendsIssuer: false,
  tokenAuthMethod: 'client_secret_basic',
};

const identified = (outbound: ProviderFetch) =>
  identify(
    SETTINGS,
    {
      code: 'code',
      codeVerifier: 'v'.repeat(43),
      nonce: 'nonce',
      callbackUrl: 'https://rmm.example.com/callback',
    },
    { outbound, keys: () => Promise.reject(new SsoFailure('signature_invalid')) },
  );

function reasonOfStatus(status: number): SsoFailureReason {
  if (status < 300) return 'answer_invalid';
  if (status >= 500) return 'provider_unreachable';
  return status === 401 ? 'client_refused' : 'provider_refused';
}
