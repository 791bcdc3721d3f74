import { expect } from 'chai';
import { readOffer } from '../../../../../src/agent/capabilities/update/offer.ts';
import { faultOf, UpdateFault } from '../../../../../src/agent/capabilities/update/download.ts';
import { ReleaseRefused } from '../../../../../src/agent/os/releases/release-check.ts';
import { ownPlatform } from '../../../../../src/agent/os/releases/layout.ts';
import type { Upgrade } from '../../../../../src/protocol/index.ts';
import { signed, signingKey } from '../../../../support/agent/release-forge.ts';

const MIB = 1024 * 1024;

describe('an offer of a release', () => {
  const { manifest, signature, keyId } = signed(signingKey(), Buffer.from('x'), { version: '5.0.0' });
  const offer = (more: Partial<Upgrade> = {}): Upgrade => ({
    component: 'agent',
    version: '5.0.0',
    url: 'https://muster.example/release',
    sha256: manifest.sha256,
    size: manifest.size,
    signature,
    keyId,
    ...more,
  });
  function refusalOf(upgrade: Upgrade): [string, string, boolean] {
    try {
      readOffer(upgrade);
    } catch (error) {
      if (error instanceof UpdateFault) return [error.code, error.message, error.isTemporary];
      throw error;
    }
    return ['none', '', false];
  }

  it('is read as the manifest for this machine', () => {
    const { component, release, url, isPinned } = readOffer(offer());
    expect([component, url, isPinned]).to.deep.equal(['agent', 'https://muster.example/release', false]);
    const { sha256, size } = manifest;
    expect(release).to.deep.equal({
      manifest: { component: 'agent', version: '5.0.0', ...ownPlatform(), sha256, size },
      signature,
      keyId,
    });
    expect(readOffer(offer({ pinned: true })).isPinned).to.equal(true);
    expect(readOffer(offer({ pinned: false })).isPinned).to.equal(false);
  });

  it('of a component that this agent does not know is refused, with as much of its name as is useful', () => {
    expect(refusalOf(offer({ component: 'x'.repeat(80) }))).to.deep.equal([
      'UNKNOWN_COMPONENT',
      `This agent does not know the component "${'x'.repeat(49)}…".`,
      false,
    ]);
  });

  it('without a signature, its key or a size is refused', () => {
    for (const name of ['signature', 'keyId', 'size'] as const) {
      const { [name]: _, ...rest } = offer();
      expect(refusalOf(rest), name).to.deep.equal([
        'SIGNATURE_MISSING',
        'The release was offered without a signature.',
        false,
      ]);
    }
  });

  it('that is no release is refused, and says why', () => {
    const [code, message, isTemporary] = refusalOf(offer({ version: '../5' }));
    expect([code, isTemporary]).to.deep.equal(['INVALID_OFFER', false]);
    expect(message).to.match(/^The offer is invalid: manifest\.version \S.*\.$/);
  });

  it('that is larger than any release is refused', () => {
    for (const [component, most] of [
      ['agent', 64 * MIB],
      ['watchdog', 512 * MIB],
    ] as const) {
      expect(refusalOf(offer({ component, size: most }))[0], component).to.equal('none');
      expect(refusalOf(offer({ component, size: most + 1 }))).to.deep.equal([
        'TOO_LARGE',
        `The release has ${most + 1} bytes; at most ${most} are installed.`,
        false,
      ]);
    }
  });
});

describe('the reason why an upgrade was not made', () => {
  const described = (error: unknown) => {
    const { code, message, isTemporary } = faultOf(error);
    return [code, message, isTemporary];
  };
  const failed = (code: string) => Object.assign(new Error('write failed'), { code });

  it('is kept if it is known', () => {
    const fault = new UpdateFault('NO_ANSWER', 'Nothing happened.', true);
    expect(faultOf(fault)).to.equal(fault);
    expect(fault.name).to.equal('UpdateFault');
    expect(described(new ReleaseRefused('DOWNGRADE', 'Too old.'))).to.deep.equal([
      'DOWNGRADE',
      'Too old.',
      false,
    ]);
  });

  it('is a full disk or a locked file if the system says so, which passes', () => {
    for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG']) {
      expect(described(failed(code)), code).to.deep.equal([
        'NO_SPACE',
        'The disk is full: write failed',
        true,
      ]);
    }
    for (const code of ['EBUSY', 'EPERM', 'EACCES', 'ETXTBSY']) {
      expect(described(failed(code)), code).to.deep.equal([
        'FILE_LOCKED',
        'A file is locked: write failed',
        true,
      ]);
    }
  });

  it('is a failure that may pass in every other case', () => {
    expect(described(failed('EIO'))).to.deep.equal(['FAILED', 'write failed', true]);
    expect(described('a text')).to.deep.equal(['FAILED', 'a text', true]);
  });
});
