import { expect } from 'chai';
import fc from 'fast-check';
import { hashPassword, verifyPassword } from '../../../src/platform/secrets/passwords.ts';
import { isWellFormed, newToken, TOKEN_PREFIX, tokenHash } from '../../../src/platform/secrets/tokens.ts';
import { processorMs } from '../../support/processor-time.ts';

const KINDS = ['agent', 'enrollmentKey'] as const;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('tokens', () => {
  const token = fc.constantFrom(...KINDS).map((kind) => ({ kind, text: newToken(kind) }));

  it('are a prefix, 40 random base62 characters and a checksum of 6, and are well formed', () => {
    fc.assert(
      fc.property(token, ({ kind, text }) => {
        expect(text).to.match(kind === 'agent' ? /^magt_[0-9A-Za-z]{46}$/ : /^menr_[0-9A-Za-z]{46}$/);
        expect(isWellFormed(kind, text)).to.equal(true);
      }),
    );
  });

  it('are refused when any one character was changed to another', () => {
    // Every place of every token: a CRC-32 finds every error of one character, so not one may slip through.
    fc.assert(
      fc.property(token, fc.nat(), ({ kind, text }, shift) => {
        for (let at = 0; at < text.length; at++) {
          const before = BASE62.indexOf(text[at]!);
          const after = BASE62[(before + 1 + (shift % (BASE62.length - 1))) % BASE62.length]!;
          if (after === text[at]) continue;
          const changed = text.slice(0, at) + after + text.slice(at + 1);
          expect(isWellFormed(kind, changed), `${text} → ${changed}`).to.equal(false);
        }
      }),
    );
  });

  it('are refused when two neighbours were swapped, cut short, lengthened or of another kind', () => {
    fc.assert(
      fc.property(token, fc.integer({ min: 5, max: 49 }), ({ kind, text }, at) => {
        const swapped = text.slice(0, at) + text[at + 1] + text[at] + text.slice(at + 2);
        if (swapped !== text) expect(isWellFormed(kind, swapped)).to.equal(false);
        expect(isWellFormed(kind, text.slice(0, -1))).to.equal(false);
        expect(isWellFormed(kind, `${text}0`)).to.equal(false);
        expect(isWellFormed(kind, `${text}\n`)).to.equal(false);
        expect(isWellFormed(kind === 'agent' ? 'enrollmentKey' : 'agent', text)).to.equal(false);
      }),
    );
  });

  it('cannot be made of anything but base62, nor by chance', () => {
    fc.assert(
      fc.property(fc.constantFrom(...KINDS), fc.string({ maxLength: 60 }), (kind, noise) => {
        expect(isWellFormed(kind, noise)).to.equal(false);
        expect(isWellFormed(kind, TOKEN_PREFIX[kind] + noise)).to.equal(false);
      }),
    );
  });

  it('do not repeat, and use the whole alphabet', () => {
    const all = Array.from({ length: 500 }, () => newToken('agent'));
    expect(new Set(all).size).to.equal(all.length);
    const used = new Set(all.flatMap((text) => text.slice(5, 45).split('')));
    expect([...used].sort().join('')).to.equal(BASE62);
  });

  it('are stored as the SHA-256 of the whole', () => {
    expect(tokenHash('abc')).to.equal('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});

describe('passwords', () => {
  it('are hashed with argon2id at 19 MiB and two passes, with a salt of their own', async () => {
    const [first, second] = await Promise.all([hashPassword('same'), hashPassword('same')]);
    expect(first).to.match(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(first).to.not.equal(second);
  });

  it('fit their hash, and no other does', async () => {
    const stored = await hashPassword('Correct-Horse-9 ✓');
    expect(await verifyPassword(stored, 'Correct-Horse-9 ✓')).to.equal(true);
    for (const wrong of ['correct-horse-9 ✓', 'Correct-Horse-9 ', '', 'Correct-Horse-9 ✓ ']) {
      expect(await verifyPassword(stored, wrong), wrong).to.equal(false);
    }
  });

  it('fit no person without a password, not even the one that the decoy was made of', async () => {
    for (const none of [null, undefined]) {
      expect(await verifyPassword(none, 'no one has this password')).to.equal(false);
      expect(await verifyPassword(none, '')).to.equal(false);
    }
  });

  it('take as much work for an unknown person as for a known one', async () => {
    const stored = await hashPassword('a password');
    await verifyPassword(null, 'makes the decoy');
    const times = { known: [] as number[], unknown: [] as number[] };
    for (let i = 0; i < 9; i++) {
      times.known.push(await processorMs(() => verifyPassword(stored, 'a wrong password')));
      times.unknown.push(await processorMs(() => verifyPassword(null, 'a wrong password')));
    }
    const median = (all: number[]) => all.sort((a, b) => a - b)[4]!;
    const [known, unknown] = [median(times.known), median(times.unknown)];
    // An early answer takes a hundredth of it.
    expect(unknown).to.be.greaterThan(known / 3);
    expect(known).to.be.greaterThan(unknown / 3);
  });

  it('all get their turn when many come at once, also behind one that fails', async () => {
    const stored = await hashPassword('a password');
    const answers = await Promise.allSettled([
      ...Array.from({ length: 8 }, () => verifyPassword(stored, 'a password')),
      ...Array.from({ length: 8 }, () => verifyPassword('not a hash', 'a password')),
      ...Array.from({ length: 8 }, () => verifyPassword(null, 'a password')),
    ]);
    const results = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : 'failed'));
    expect(results).to.deep.equal([
      ...Array(8).fill(true),
      ...Array(8).fill('failed'),
      ...Array(8).fill(false),
    ]);
    // What failed has given its place back.
    expect(await verifyPassword(stored, 'a password')).to.equal(true);
  });
});
