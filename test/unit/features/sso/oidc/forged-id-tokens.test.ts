import { expect } from 'chai';
import { createHmac, createPublicKey, generateKeyPairSync, KeyObject, randomBytes, sign } from 'node:crypto';
import { exportJWK, type JWK, type JWTPayload } from 'jose';
import type { SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import {
  type Departures,
  type ScriptedOidcProvider,
  signed,
  startScriptedOidcProvider,
} from '../../../../support/scripted-oidc-provider.ts';
import { providerOf, reasonOf, signIn, testProtocol } from '../../../../support/sso/oidc/oidc-fixture.ts';

/** A token of any parts. */
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const token = (header: object, claims: object, signature: (text: string) => string) => {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${signature(text)}`;
};
const hmac = (key: string | Buffer) => (text: string) =>
  createHmac('sha256', key).update(text).digest('base64url');
const rs256 = (key: KeyObject) => (text: string) =>
  sign('sha256', Buffer.from(text), key).toString('base64url');

const thief = generateKeyPairSync('rsa', { modulusLength: 2048 });

describe('a forged ID token', () => {
  let idp: ScriptedOidcProvider;
  let elsewhere: ScriptedOidcProvider;

  before(async () => {
    idp = await startScriptedOidcProvider();
    elsewhere = await startScriptedOidcProvider();
  });
  after(() => Promise.all([idp.stop(), elsewhere.stop()]));

  /** First a valid sign-in, then the same with one thing undone, then a valid one again. */
  async function expectRefused(reason: SsoFailureReason, departures: Departures): Promise<void> {
    const provider = await providerOf(idp, idp);
    const protocol = testProtocol();
    const attempt = () => signIn(protocol, provider, idp.signIn);
    idp.departures = {};
    expect((await attempt()).subject).to.equal('subject-1');
    idp.departures = departures;
    expect(await reasonOf(attempt())).to.equal(reason);
    expect(await reasonOf(signIn(testProtocol(), provider, idp.signIn)), 'without cached keys').to.equal(
      reason,
    );
    idp.departures = {};
    expect((await attempt()).subject).to.equal('subject-1');
  }

  const kid = () => idp.key.kid;
  const rightKey = () => KeyObject.from(idp.key.private);
  const thiefKey = async () => exportJWK(thief.publicKey);
  const publicPem = () =>
    createPublicKey({ key: idp.key.public, format: 'jwk' }).export({ format: 'pem', type: 'spki' });

  type Sign = (claims: JWTPayload) => string | Promise<string>;
  const BY_ALGORITHM: Record<string, Sign> = {
    'with the algorithm none': (claims) => token({ alg: 'none' }, claims, () => ''),
    'with the algorithm nOnE and the kid of a key': (claims) =>
      token({ alg: 'nOnE', kid: kid() }, claims, () => ''),
    'signed with the secret of the client (HS256)': (claims) =>
      token({ alg: 'HS256', kid: kid() }, claims, hmac(idp.clientSecret)),
    'signed with the public key as a secret (PEM, HS256)': (claims) =>
      token({ alg: 'HS256', kid: kid() }, claims, hmac(publicPem())),
    'signed with the public key as a secret (modulus, HS256)': (claims) =>
      token({ alg: 'HS256', kid: kid() }, claims, hmac(Buffer.from(idp.key.public.n ?? '', 'base64url'))),
    'signed with the right key by another algorithm': (claims) =>
      token({ alg: 'RS1', kid: kid() }, claims, (text) =>
        sign('sha1', Buffer.from(text), rightKey()).toString('base64url'),
      ),
  };

  const BY_SIGNATURE: Record<string, Sign> = {
    'whose signature is garbage': (claims) =>
      token({ alg: 'RS256', kid: kid() }, claims, () => randomBytes(256).toString('base64url')),
    'without a signature': (claims) => token({ alg: 'RS256', kid: kid() }, claims, () => ''),
    'whose claims were changed after it was signed': async (claims) => {
      const [header, , signature] = (await signed(claims, idp.key)).split('.');
      return `${header}.${part({ ...claims, sub: 'somebody-else' })}.${signature}`;
    },
    'without an algorithm': (claims) => token({ kid: kid() }, claims, () => ''),
    'signed with another key under the right kid': (claims) =>
      token({ alg: 'RS256', kid: kid() }, claims, rs256(thief.privateKey)),
    'signed with another key under a kid of its own': (claims) =>
      token({ alg: 'RS256', kid: 'thief' }, claims, rs256(thief.privateKey)),
    'signed with another key and without a kid': (claims) =>
      token({ alg: 'RS256' }, claims, rs256(thief.privateKey)),
    'which brings its own key along (jwk)': async (claims) =>
      token({ alg: 'RS256', jwk: await thiefKey() }, claims, rs256(thief.privateKey)),
    'which brings its own certificate along (x5c)': (claims) =>
      token({ alg: 'RS256', kid: kid(), x5c: ['MIIB'] }, claims, rs256(thief.privateKey)),
    'which points to its own keys (jku)': (claims) =>
      token({ alg: 'RS256', kid: 'thief', jku: `${elsewhere.issuer}/jwks` }, claims, rs256(thief.privateKey)),
    'which points to its own certificate (x5u)': (claims) =>
      token({ alg: 'RS256', kid: kid(), x5u: `${elsewhere.issuer}/x5u` }, claims, rs256(thief.privateKey)),
    'which demands an unknown extension (crit)': (claims) =>
      token(
        { alg: 'RS256', kid: kid(), crit: ['urn:test:x'], 'urn:test:x': true },
        claims,
        rs256(rightKey()),
      ),
    'which is encrypted': () =>
      'eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA',
    'of two parts': (claims) => `${part({ alg: 'RS256' })}.${part(claims)}`,
    'which is no token': () => 'null',
    'which is empty': () => '',
    'whose header is no JSON': (claims) => `AAAA.${part(claims)}.AAAA`,
    'whose header is nested 50,000 deep': (claims) =>
      `${Buffer.from(`{"alg":"RS256","a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`).toString('base64url')}.${part(claims)}.AAAA`,
  };

  for (const [title, sign] of Object.entries(BY_ALGORITHM)) {
    it(`${title} is refused as algorithm_not_allowed`, () =>
      expectRefused('algorithm_not_allowed', { sign }));
  }
  for (const [title, sign] of Object.entries(BY_SIGNATURE)) {
    it(`${title} is refused as signature_invalid`, () => expectRefused('signature_invalid', { sign }));
  }

  it('whose payload is signed as text instead of claims (b64) is refused as answer_invalid', () =>
    expectRefused('answer_invalid', {
      sign: (claims) =>
        token({ alg: 'RS256', kid: kid(), b64: false, crit: ['b64'] }, claims, rs256(rightKey())),
    }));

  it('never makes the server ask for the keys that it points to', () => {
    expect(elsewhere.paths).to.deep.equal([]);
  });

  describe('is refused although its key is in the key set, if that key', () => {
    const withKey = (jwk: JWK, alg: string, signature: (text: string) => string): Departures => ({
      jwks: ({ keys }) => ({ keys: [...keys, { ...jwk, kid: 'weak' }] }),
      sign: (claims) => token({ alg, kid: 'weak' }, claims, signature),
    });

    it('is a secret', () =>
      expectRefused(
        'algorithm_not_allowed',
        withKey({ kty: 'oct', k: Buffer.from('known').toString('base64url') }, 'HS256', hmac('known')),
      ));

    it('is an RSA key of 1,024 bits', async () => {
      const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
      await expectRefused(
        'signature_invalid',
        withKey(await exportJWK(weak.publicKey), 'RS256', rs256(weak.privateKey)),
      );
    });

    it('is meant for encryption', async () =>
      expectRefused(
        'signature_invalid',
        withKey({ ...(await thiefKey()), use: 'enc' }, 'RS256', rs256(thief.privateKey)),
      ));

    it('is allowed to encrypt only', async () =>
      expectRefused(
        'signature_invalid',
        withKey({ ...(await thiefKey()), key_ops: ['encrypt'] }, 'RS256', rs256(thief.privateKey)),
      ));

    it('is of an elliptic curve, and the signature is zero', async () => {
      const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const zero = Buffer.alloc(64).toString('base64url');
      await expectRefused(
        'signature_invalid',
        withKey(await exportJWK(publicKey), 'ES256', () => zero),
      );
    });

    it('is meant for another algorithm', async () =>
      expectRefused(
        'signature_invalid',
        withKey({ ...(await thiefKey()), alg: 'PS256' }, 'RS256', rs256(thief.privateKey)),
      ));

    for (const bits of [16_384, 600_000]) {
      it(`has ${bits} bits and an exponent of that size, which would take long to compute with`, async () => {
        const n = Buffer.alloc(bits / 8, 0xff).toString('base64url');
        const signature = Buffer.alloc(2048, 1).toString('base64url');
        await expectRefused(
          'signature_invalid',
          withKey({ kty: 'RSA', n, e: n }, 'RS256', () => signature),
        );
      });
    }

    it('is broken', () =>
      expectRefused(
        'signature_invalid',
        withKey({ kty: 'RSA', n: '!', e: 'AQAB' }, 'RS256', () => 'AAAA'),
      ));
  });

  const now = () => Math.floor(Date.now() / 1000);
  const CLAIMS: Record<string, [SsoFailureReason, (claims: JWTPayload) => JWTPayload]> = {
    'of another issuer': ['issuer_mismatch', (claims) => ({ ...claims, iss: elsewhere.issuer })],
    'whose issuer ends with another slash': [
      'issuer_mismatch',
      (claims) => ({ ...claims, iss: `${idp.issuer}/` }),
    ],
    'without an issuer': ['issuer_mismatch', without('iss')],
    'for another client': ['audience_mismatch', (claims) => ({ ...claims, aud: 'another-client' })],
    'without an audience': ['audience_mismatch', without('aud')],
    'whose audience is a list in a list': [
      'audience_mismatch',
      (claims) => change(claims, { aud: [[idp.clientId]] }),
    ],
    'whose audience is empty': ['audience_mismatch', (claims) => ({ ...claims, aud: [] })],
    'for several clients that does not say which one asked': [
      'audience_mismatch',
      (claims) => ({ ...claims, aud: [idp.clientId, 'another-client'] }),
    ],
    'for several clients of which another one asked': [
      'audience_mismatch',
      (claims) => ({ ...claims, aud: [idp.clientId, 'another-client'], azp: 'another-client' }),
    ],
    'that another client asked for': [
      'audience_mismatch',
      (claims) => ({ ...claims, azp: 'another-client' }),
    ],
    'whose authorized party is a list': ['answer_invalid', (claims) => ({ ...claims, azp: [idp.clientId] })],
    'that has expired': ['answer_expired', (claims) => ({ ...claims, exp: now() - 61 })],
    'that never expires': ['answer_invalid', without('exp')],
    'whose expiry is text': ['answer_invalid', (claims) => change(claims, { exp: '9999999999' })],
    'issued in the future': [
      'answer_expired',
      (claims) => ({ ...claims, iat: now() + 120, exp: now() + 500 }),
    ],
    'that does not say when it was issued': ['answer_invalid', without('iat')],
    'that is not valid yet': ['answer_expired', (claims) => ({ ...claims, nbf: now() + 120 })],
    'with another nonce': ['nonce_mismatch', (claims) => ({ ...claims, nonce: 'x'.repeat(43) })],
    'with the beginning of the nonce': [
      'nonce_mismatch',
      (claims) => ({ ...claims, nonce: String(claims.nonce).slice(0, 42) }),
    ],
    'without a nonce': ['nonce_mismatch', without('nonce')],
    'whose nonce is a list': ['answer_invalid', (claims) => ({ ...claims, nonce: [claims.nonce] })],
    'without a subject': ['answer_invalid', without('sub')],
    'whose subject is empty': ['answer_invalid', (claims) => ({ ...claims, sub: '' })],
    'whose subject is a number': ['answer_invalid', (claims) => change(claims, { sub: 1 })],
    'whose subject is longer than 255 characters': [
      'answer_invalid',
      (claims) => ({ ...claims, sub: 'x'.repeat(256) }),
    ],
    'whose subject cannot be stored': ['answer_invalid', (claims) => ({ ...claims, sub: 'a\0b' })],
  };

  function without(name: string) {
    return (claims: JWTPayload): JWTPayload => {
      const { [name]: _removed, ...rest } = claims;
      return rest;
    };
  }
  /** For values of a type that an honest claim never has. */
  const change = (claims: JWTPayload, values: object): JWTPayload => Object.assign({ ...claims }, values);

  for (const [title, [reason, idToken]] of Object.entries(CLAIMS)) {
    it(`${title} is refused as ${reason}`, () => expectRefused(reason, { idToken }));
  }

  it('differs from a true one that names this client among several, or whose clock is half a minute off', async () => {
    const provider = await providerOf(idp, idp);
    const TRUE: Departures['idToken'][] = [
      (claims) => ({ ...claims, aud: [idp.clientId, 'another-client'], azp: idp.clientId }),
      (claims) => ({ ...claims, aud: [idp.clientId] }),
      (claims) => ({ ...claims, exp: now() - 30 }),
      (claims) => ({ ...claims, iat: now() + 30, nbf: now() + 30 }),
    ];
    for (const idToken of TRUE) {
      idp.departures = idToken === undefined ? {} : { idToken };
      expect((await signIn(testProtocol(), provider, idp.signIn)).subject).to.equal('subject-1');
    }
    idp.departures = {};
  });
});
