import { createPublicKey, verify } from 'node:crypto';
import canonicalizePackage from 'canonicalize';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  Architecture,
  Component,
  OperatingSystem,
  compareVersions,
  isPrerelease,
  Version,
} from '../../../../src/features/releases/release-name.ts';
import { canonicalManifest } from '../../../../src/protocol/index.ts';
import { ReleaseKeys } from '../../../../src/features/releases/release-keys.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { openPool } from '../../../../src/platform/db/pool.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { createTestDatabase } from '../../../support/test-postgres.ts';

// The types of the package describe a default export that Node does not make.
const canonicalize = canonicalizePackage as unknown as (value: unknown) => string | undefined;

const number = fc.nat({ max: 999_999_999 });
const version = fc
  .tuple(number, number, number, fc.option(number))
  .map(([a, b, c, rc]) => `${a}.${b}.${c}${rc === null ? '' : `-rc.${rc}`}`)
  .filter((text) => text.length <= 20);
const manifest = fc.record({
  version,
  component: fc.constantFrom(...Component.options),
  os: fc.constantFrom(...OperatingSystem.options),
  architecture: fc.constantFrom(...Architecture.options),
  sha256: fc.string({ unit: fc.constantFrom(...'0123456789abcdef'.split('')), minLength: 64, maxLength: 64 }),
  size: fc.nat(),
});

describe('versions of releases', () => {
  it('are semantic versions, of which candidates are the only pre-releases', () => {
    for (const good of ['0.0.0', '1.2.3', '10.20.30', '1.2.3-rc.0', '1.2.3-rc.12', '999999999.0.0']) {
      expect(Version.safeParse(good).success, good).to.equal(true);
    }
    const bad = [
      '',
      'v1.2.3',
      '1.2',
      '1.2.3.4',
      '01.2.3',
      '1.2.3-rc',
      '1.2.3-rc.01',
      '1.2.3-beta.1',
      '1.2.3+x',
    ];
    const hostile = [
      '../1.2.3',
      '1.2.3/..',
      '1.2.3\n',
      '1.2.3\0',
      '-1.2.3',
      '1.2.3-rc.-1',
      '١.٢.٣',
      'latest',
    ];
    for (const text of [...bad, ...hostile, '1234567890.0.0', '111111111.1111111.111']) {
      expect(Version.safeParse(text).success, JSON.stringify(text)).to.equal(false);
    }
  });

  it('are ordered by number, and candidates before their release', () => {
    const ascending = [
      '0.9.10',
      '1.0.0-rc.2',
      '1.0.0-rc.10',
      '1.0.0',
      '1.0.1-rc.1',
      '1.0.1',
      '1.2.0',
      '1.10.0',
    ];
    const mixed = ['1.10.0', '1.0.0', '1.0.1', '0.9.10', '1.2.0', '1.0.0-rc.10', '1.0.1-rc.1', '1.0.0-rc.2'];
    expect(mixed.sort(compareVersions)).to.deep.equal(ascending);
    expect(ascending.filter(isPrerelease)).to.deep.equal(['1.0.0-rc.2', '1.0.0-rc.10', '1.0.1-rc.1']);
  });

  it('have a total order', () => {
    fc.assert(
      fc.property(version, version, version, (a, b, c) => {
        expect(compareVersions(a, a)).to.equal(0);
        expect(Math.sign(compareVersions(a, b))).to.equal(0 - Math.sign(compareVersions(b, a)));
        const [low, middle, high] = [a, b, c].sort(compareVersions);
        expect(compareVersions(low!, middle!)).to.be.at.most(0);
        expect(compareVersions(low!, high!)).to.be.at.most(0);
      }),
    );
  });
});

describe('the signature of a release', () => {
  it('is over the canonical JSON of its manifest', () => {
    fc.assert(
      fc.property(manifest, (one) => {
        expect(canonicalManifest(one)).to.equal(canonicalize(one));
        expect(canonicalManifest({ ...one, notes: 'x' } as typeof one)).to.equal(canonicalize(one));
      }),
    );
  });

  it('holds for exactly what was signed, also after the key was replaced, and with no key of others', async () => {
    const database = await createTestDatabase();
    const db = openPool(database.appUrl, { max: 2, name: 'test' });
    try {
      const keys = new ReleaseKeys(createEncryptor({ current: 'a-key-that-only-tests-seal-with', old: [] }));
      await Promise.all([keys.ensure(db), keys.ensure(db)]);
      const one = fc.sample(manifest, 1)[0]!;
      const signed = await withSystem(db, 'test', async (tx) => ({ ...one, ...(await keys.sign(tx, one)) }));
      const next = await withSystem(db, 'test', (tx) => keys.rotate(tx, { vouched: true }));
      expect(next.id).not.to.equal(signed.keyId);

      const strange = newKeyPair();
      await withSystem(db, 'test', async (tx) => {
        const isTrusted = await keys.verifier(tx);
        expect(isTrusted(signed)).to.equal(true);
        const other = signed.component === 'agent' ? 'helper' : 'agent';
        for (const change of [
          { version: '9.9.9' },
          { component: other } as const,
          { size: one.size + 1 },
          { sha256: 'f'.repeat(64) },
          { signature: signed.signature.slice(0, 20) },
          { signature: '' },
          { keyId: newId() },
        ]) {
          expect(isTrusted({ ...signed, ...change }), JSON.stringify(change)).to.equal(false);
        }
        const pem = (await keys.publicKeys(tx)).get(signed.keyId)!;
        const text = Buffer.from(canonicalize(one)!);
        expect(verify(null, text, createPublicKey(pem), Buffer.from(signed.signature, 'base64url'))).to.equal(
          true,
        );

        // Somebody with the database alone puts a key there, with the sealed half of a real one.
        const [row] = (await tx.raw('select sealed_private_key from release_signing_keys limit 1')).rows;
        await tx('release_signing_keys').insert({
          id: newId(),
          public_key: strange.publicKey,
          sealed_private_key: row.sealed_private_key,
          retired_at: tx.fn.now(),
        });
        expect([...(await keys.publicKeys(tx)).values()])
          .to.have.lengthOf(2)
          .and.not.include(strange.publicKey);
      });
    } finally {
      await db.destroy();
      await database.drop();
    }
  });
});
