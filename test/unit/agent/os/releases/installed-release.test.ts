import { mkdir, readlink, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  chooseRelease,
  currentRelease,
  ownPlatform,
  programFile,
  releaseFolder,
  compareReleases,
  ReleaseVersion,
} from '../../../../../src/agent/os/releases/layout.ts';
import {
  checkInstalled,
  readScript,
  afterHealthy,
  floorForStart,
  type Proven,
} from '../../../../../src/agent/os/releases/installed-release.ts';
import {
  checkRelease,
  type Expected,
  isSigned,
  ReleaseRefused,
  extendTrust,
  keysForStart,
  loadTrustedKeys,
  saveTrustedKeys,
  vouchedFor,
} from '../../../../../src/agent/os/releases/release-check.ts';
import { canonicalManifest, type ReleaseManifest } from '../../../../../src/protocol/index.ts';
import {
  install,
  published,
  signed,
  signingKey,
  type SigningKey,
} from '../../../../support/agent/release-forge.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

const BYTES = Buffer.from('console.log(1)');

describe('an installed release', () => {
  let programs: string;
  let remove: () => Promise<void>;
  const key = signingKey();

  beforeEach(async () => {
    ({ folder: programs, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  const expected = (more: Partial<Expected> = {}): Expected => ({
    component: 'agent',
    platform: ownPlatform(),
    keys: new Map([[key.id, key.publicKey]]),
    floor: undefined,
    ...more,
  });
  const refusal = async (act: () => unknown): Promise<string> => {
    try {
      await act();
    } catch (error) {
      if (error instanceof ReleaseRefused) return error.code;
      throw error;
    }
    return 'accepted';
  };
  const put = (about: Partial<ReleaseManifest> = {}, by: SigningKey = key) =>
    install(programs, signed(by, BYTES, { version: '1.2.0', ...about }), BYTES, '1.2.0');
  const read = (more?: Partial<Expected>) => refusal(() => readScript(programs, '1.2.0', expected(more)));

  it('is read if everything about it holds, and its bytes are those of the file', async () => {
    await put();
    const { bytes } = await readScript(programs, '1.2.0', expected());
    expect(bytes.equals(BYTES)).to.equal(true);
    expect(await read({ floor: '1.2.0' })).to.equal('accepted');
    expect((await checkInstalled(programs, '1.2.0', expected())).manifest.version).to.equal('1.2.0');
  });

  it('is refused with an untrusted key, even if that key has the id of a trusted one', async () => {
    const other = signingKey();
    await put({}, other);
    expect(await read()).to.equal('UNKNOWN_KEY');
    await put({}, { ...other, id: key.id });
    expect(await read()).to.equal('SIGNATURE_INVALID');
  });

  it('is refused if it is for another component or platform, or older than the floor', async () => {
    await put({ component: 'watchdog' });
    expect(await read()).to.equal('WRONG_COMPONENT');
    await put({ os: 'windows', architecture: 'arm64' });
    expect(await read()).to.equal('WRONG_PLATFORM');
    await put();
    expect(await read({ floor: '1.2.1-rc.1' })).to.equal('DOWNGRADE');
  });

  it('is refused if the file was changed, cut or lengthened', async () => {
    await put();
    const file = programFile(programs, 'agent', '1.2.0');
    await writeFile(file, Buffer.from('console.log(2)'));
    expect(await read()).to.equal('CHECKSUM_MISMATCH');
    expect(await refusal(() => checkInstalled(programs, '1.2.0', expected()))).to.equal('CHECKSUM_MISMATCH');
    await truncate(file, 5);
    expect(await read()).to.equal('SIZE_MISMATCH');
    // A terabyte of nothing is refused for its size, and not read.
    await truncate(file, 2 ** 40);
    expect(await read()).to.equal('SIZE_MISMATCH');
  });

  it('is refused if it lies in the folder of another version', async () => {
    await install(programs, signed(key, BYTES, { version: '1.1.0' }), BYTES, '1.2.0');
    expect(await read()).to.equal('NOT_INSTALLED');
  });

  it('is refused if a part of its path is a link, a folder or a text without sense', async () => {
    await put();
    const folder = releaseFolder(programs, 'agent', '1.2.0');
    await rename(folder, path.join(programs, 'elsewhere'));
    await symlink(path.join(programs, 'elsewhere'), folder);
    expect(await read()).to.equal('NOT_INSTALLED');
    await rm(folder);
    await rename(path.join(programs, 'elsewhere'), folder);
    const file = programFile(programs, 'agent', '1.2.0');
    await rename(file, path.join(programs, 'script'));
    await symlink(path.join(programs, 'script'), file);
    expect(await read()).to.equal('NOT_INSTALLED');
    await rm(file);
    await mkdir(file);
    expect(await read()).to.equal('NOT_INSTALLED');
    await put().catch(() => {});
    await writeFile(path.join(folder, 'release.json'), 'x'.repeat(1_000_000));
    expect(await read()).to.equal('NOT_INSTALLED');
    expect(await refusal(() => readScript(programs, '9.9.9', expected()))).to.equal('NOT_INSTALLED');
  });

  it('is the current one by a link or, on Windows, a file, whatever was in that place', async () => {
    for (const platform of ['linux', 'win32'] as const) {
      expect(await currentRelease(programs, 'agent', platform)).to.equal(undefined);
      await chooseRelease(programs, 'agent', undefined, platform);
      await mkdir(path.join(programs, 'agent'), { recursive: true });
      for (const version of ['1.2.0', '1.3.0-rc.1', '1.2.0']) {
        await chooseRelease(programs, 'agent', version, platform);
        expect(await currentRelease(programs, 'agent', platform)).to.equal(version);
      }
      await chooseRelease(programs, 'agent', undefined, platform);
      expect(await currentRelease(programs, 'agent', platform)).to.equal(undefined);
    }
    const link = path.join(programs, 'agent/current');
    for (const elsewhere of ['../elsewhere', '/etc', '1.2.0/..', 'current']) {
      await symlink(elsewhere, link);
      expect(await currentRelease(programs, 'agent')).to.equal(undefined);
      await rm(link);
    }
    await mkdir(link);
    await chooseRelease(programs, 'agent', '1.2.0');
    expect(await readlink(link)).to.equal('1.2.0');
  });

  it('is signed with Ed25519 by the key: any other text, key or signature is refused', () => {
    const { manifest, signature } = signed(key, BYTES, { version: '1.2.0' });
    const text = canonicalManifest(manifest);
    expect(isSigned(text, signature, key.publicKey)).to.equal(true);
    const damaged = fc.oneof(fc.string(), fc.base64String(), fc.constant(signature.slice(0, -3)));
    fc.assert(fc.property(damaged, (other) => !isSigned(text, other, key.publicKey)));
    fc.assert(
      fc.property(fc.string(), (other) => other === text || !isSigned(other, signature, key.publicKey)),
    );
    expect(isSigned(text, signature, 'not a key')).to.equal(false);
    const member = fc.constantFrom(...(Object.keys(manifest) as (keyof ReleaseManifest)[]));
    fc.assert(
      fc.property(member, (name) => {
        const changed = { ...manifest, [name]: name === 'size' ? manifest.size + 1 : '1.2.1' };
        const release = { manifest: changed, signature, keyId: key.id };
        expect(() => checkRelease(release, expected())).to.throw(ReleaseRefused, /signature/);
      }),
    );
  });
});

describe('the keys that a machine trusts', () => {
  let dataDir: string;
  let remove: () => Promise<void>;
  const first = signingKey();
  const second = signingKey(first);
  const third = signingKey(second);

  beforeEach(async () => {
    ({ folder: dataDir, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  it('are found by a chain of signatures, in whatever order they come', () => {
    const keys = [first, second, third].map(published);
    fc.assert(
      fc.property(fc.shuffledSubarray(keys, { minLength: 3 }), (offered) => {
        const added = vouchedFor([published(first)], offered).map(({ id }) => id);
        expect(added).to.deep.equal([second.id, third.id]);
      }),
    );
  });

  it('do not grow by a key that no trusted one has signed, or by one whose signature is of another text', () => {
    const foreign = signingKey();
    const forged = { ...published(signingKey()), signedBy: first.id, signature: second.signature! };
    const circle = [
      { ...published(signingKey()), id: third.id, signedBy: foreign.id },
      { ...published(foreign), signedBy: third.id },
    ];
    expect(vouchedFor([published(first)], [published(foreign), forged, ...circle])).to.deep.equal([]);
  });

  it('are those of the server at first, and later only those that it can prove', async () => {
    expect(await extendTrust(dataDir, [published(first)])).to.equal(1);
    expect(await extendTrust(dataDir, [published(signingKey())])).to.equal(0);
    expect(await extendTrust(dataDir, [first, second, third].map(published))).to.equal(2);
    expect((await loadTrustedKeys(dataDir)).map(({ id }) => id)).to.deep.equal([
      first.id,
      second.id,
      third.id,
    ]);
  });

  it('of a server that the machine has left start installed releases and install no new ones', async () => {
    const other = signingKey();
    await saveTrustedKeys(dataDir, [published(first)]);
    await saveTrustedKeys(dataDir, [published(other)]);
    expect((await loadTrustedKeys(dataDir)).map(({ id }) => id)).to.deep.equal([other.id]);
    expect([...(await keysForStart(dataDir)).keys()]).to.have.members([first.id, other.id]);
    // The chain of the former server proves nothing to the new one.
    expect(await extendTrust(dataDir, [published(second)])).to.equal(0);
  });
});

describe('the versions of releases', () => {
  it('are ordered as semantic versions, and candidates before their release', () => {
    const order = [
      'no version',
      '0.9.10',
      '1.0.0-rc.2',
      '1.0.0-rc.10',
      '1.0.0',
      '1.0.1-rc.0',
      '1.10.0',
      '2.0.0',
    ];
    for (const [at, version] of order.entries()) {
      for (const [otherAt, other] of order.entries()) {
        expect(Math.sign(compareReleases(version, other)), `${version} ${other}`).to.equal(
          Math.sign(at - otherAt),
        );
      }
    }
  });

  it('are names of folders and nothing else', () => {
    for (const text of [
      '..',
      '1.2',
      '1.2.3/..',
      'v1.2.3',
      '1.2.3-rc',
      '01.2.3',
      '1.2.3+b',
      '',
      '1.2.3-rc.1.part',
    ]) {
      expect(ReleaseVersion.safeParse(text).success, text).to.equal(false);
    }
  });

  it('have a floor that only rises, and that only what was healthy or is pinned goes below', () => {
    const version = fc.tuple(fc.nat(2), fc.nat(2), fc.nat(2)).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(fc.array(version, { minLength: 1 }), (versions) => {
        let proven: Proven = { healthy: [] };
        for (const each of versions) {
          const before = proven.floor;
          proven = afterHealthy({ ...proven, pinned: each }, each);
          expect(before === undefined || compareReleases(proven.floor!, before) >= 0).to.equal(true);
          expect(proven.healthy[0]).to.equal(each);
          expect(new Set(proven.healthy).size).to.equal(proven.healthy.length);
          expect(floorForStart(proven, each)).to.equal(undefined);
          expect(floorForStart(proven, '9.9.9')).to.equal(proven.floor);
          expect(floorForStart({ ...proven, healthy: [], pinned: '0.0.1' }, each)).to.equal(
            each === '0.0.1' ? undefined : proven.floor,
          );
        }
      }),
    );
  });
});
