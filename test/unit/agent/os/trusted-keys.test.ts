import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { loadTrustedKeys, saveTrustedKeys } from '../../../../src/agent/os/releases/release-check.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';
import { codeOf, temporaryFolder } from '../../../support/agent/collect.ts';

describe('agent: the keys that it trusts', () => {
  let folder: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  const keyOf = (publicKey: string) => ({ id: randomUUID(), publicKey });

  it('are none before the enrollment, then those of the last one, readable by its user only', async () => {
    expect(await loadTrustedKeys(folder)).to.deep.equal([]);
    const [one, other] = [keyOf(newKeyPair().publicKey), keyOf(newKeyPair().publicKey)];
    await saveTrustedKeys(folder, [one]);
    await saveTrustedKeys(folder, [other]);
    expect(await loadTrustedKeys(folder)).to.deep.equal([other]);
    const file = path.join(folder, 'upgrades', 'trusted-keys.json');
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    expect((await stat(path.dirname(file))).mode & 0o777).to.equal(0o700);
  });

  it('are Ed25519 keys, and no more than an installation has', async () => {
    const rsa = generateKeyPairSync('rsa', {
      modulusLength: 1024,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const good = keyOf(newKeyPair().publicKey);
    const bad = ['', 'x', 'x'.repeat(100_000), rsa.publicKey].map(keyOf);
    await saveTrustedKeys(folder, [...bad, good]);
    expect(await loadTrustedKeys(folder)).to.deep.equal([good]);
    const many = Array.from({ length: 101 }, () => keyOf(good.publicKey));
    await saveTrustedKeys(folder, many);
    expect(await loadTrustedKeys(folder)).to.deep.equal(many.slice(1));
  });

  it('are refused if another user has written the file', async () => {
    await saveTrustedKeys(folder, []);
    for (const text of ['', '[]', '{"keys":[{"id":"x","publicKey":"y"}]}', '{"keys":7}']) {
      await writeFile(path.join(folder, 'upgrades', 'trusted-keys.json'), text);
      expect(await codeOf(loadTrustedKeys(folder)), text).not.to.equal('no error');
    }
  });
});
