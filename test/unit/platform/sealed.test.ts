import { expect } from 'chai';
import fc from 'fast-check';
import { createEncryptor, SealBrokenError, sealContext } from '../../../src/platform/secrets/sealed.ts';

const NEW = 'the newest key, of thirty-two characters at least';
const OLD = 'the key of last year, of thirty-two characters or so';
const HERE = sealContext('user_mfa', 'secret', '1');

describe('a sealed secret', () => {
  const sealer = createEncryptor({ current: NEW, old: [OLD] });
  const before = createEncryptor({ current: OLD, old: [] });
  const refused = (sealed: string, context = HERE, by = sealer) =>
    expect(() => by.open(sealed, context), sealed).to.throw(SealBrokenError);

  it('opens where it was sealed, whatever it holds, and is never sealed alike twice', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (text, context) => {
        const sealed = sealer.seal(text, context);
        expect(sealed).to.match(/^v1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]{22,}$/);
        expect(sealer.open(sealed, context)).to.deep.equal({ text, stale: false });
        expect(sealer.seal(text, context)).not.to.equal(sealed);
      }),
    );
  });

  it('does not open in another place', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (text, here, there) => {
        fc.pre(here !== there);
        refused(sealer.seal(text, here), there);
      }),
    );
  });

  it('does not open when any one character is another', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.nat(),
        fc.constantFrom('A', 'b', '0', '-', '_', '.'),
        (text, place, other) => {
          const sealed = sealer.seal(text, HERE);
          const at = place % sealed.length;
          fc.pre(sealed[at] !== other);
          refused(sealed.slice(0, at) + other + sealed.slice(at + 1));
        },
      ),
      { numRuns: 500 },
    );
  });

  it('does not open when any one bit of vector, text or tag is turned', () => {
    const [version, keyId, iv, body] = sealer.seal('text', HERE).split('.') as [
      string,
      string,
      string,
      string,
    ];
    for (const [at, part] of [iv, body].entries()) {
      const bytes = Buffer.from(part, 'base64url');
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const turned = Buffer.from(bytes);
        turned[bit >> 3]! ^= 1 << (bit & 7);
        const changed = turned.toString('base64url');
        refused([version, keyId, at === 0 ? changed : iv, at === 0 ? body : changed].join('.'));
      }
    }
  });

  it('does not open under the id of another key, with a tag cut short, or in another form', () => {
    const sealed = sealer.seal('text', HERE);
    const [version, keyId, iv = '', body = ''] = sealed.split('.');
    const other = before.seal('x', HERE).split('.')[1];
    refused([version, other, iv, body].join('.'));
    refused([version, '00000000', iv, body].join('.'));
    const bytes = Buffer.from(body, 'base64url');
    for (let length = 0; length < bytes.length; length++) {
      refused([version, keyId, iv, bytes.subarray(0, length).toString('base64url')].join('.'));
    }
    for (const text of [
      '',
      'v1',
      '....',
      `${sealed}.`,
      ` ${sealed}`,
      sealed.replace('v1', 'v2'),
      `${sealed}=`,
    ]) {
      refused(text);
    }
  });

  it('opens with an old key, and says that it is due; a key that is not there is named', () => {
    const sealed = before.seal('text', HERE);
    expect(sealer.open(sealed, HERE)).to.deep.equal({ text: 'text', stale: true });
    expect([sealer.isStale(sealed), before.isStale(sealed)]).to.deep.equal([true, false]);
    expect(() => before.open(sealer.seal('text', HERE), HERE)).to.throw('SECRET_ENCRYPTION_KEYS_OLD');
  });

  it('opens for its own purpose only', () => {
    refused(createEncryptor({ current: NEW, old: [] }, 'something else').seal('text', HERE));
  });
});
