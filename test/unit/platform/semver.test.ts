import { expect } from 'chai';
import fc from 'fast-check';
import { compareVersions, parseVersion } from '../../../src/platform/semver.ts';

function version(text: string) {
  const parsed = parseVersion(text);
  if (parsed === undefined) throw new Error(`${text} is not a version`);
  return parsed;
}
const order = (a: string, b: string) => Math.sign(compareVersions(version(a), version(b)));

const number = fc.oneof(fc.nat({ max: 3 }).map(String), fc.bigInt({ min: 0n, max: 10n ** 25n }).map(String));
const word = fc.stringMatching(/^[a-cA-C0-9-]{0,3}[a-cA-C-][a-cA-C0-9-]{0,3}$/);
const part = fc.oneof(number, word);
const list = <T>(of: fc.Arbitrary<T>, minLength: number) => fc.array(of, { minLength, maxLength: 4 });
const written = fc
  .record({
    core: fc.tuple(number, number, number),
    prerelease: list(part, 0),
    build: list(fc.oneof(word, fc.constant('007')), 0),
  })
  .map(
    ({ core, prerelease, build }) =>
      core.join('.') +
      (prerelease.length > 0 ? `-${prerelease.join('.')}` : '') +
      (build.length > 0 ? `+${build.join('.')}` : ''),
  )
  .filter((text) => text.length <= 100);

/** The order of semver.org 11, once more: written from its sentences, with exact numbers. */
function refereeOrder(a: string, b: string): number {
  const read = (text: string) => {
    const bare = text.split('+')[0] ?? '';
    const dash = bare.indexOf('-');
    return {
      core: (dash < 0 ? bare : bare.slice(0, dash)).split('.').map(BigInt),
      prerelease: dash < 0 ? undefined : bare.slice(dash + 1).split('.'),
    };
  };
  const [one, other] = [read(a), read(b)];
  for (const at of [0, 1, 2]) {
    const [x = 0n, y = 0n] = [one.core[at], other.core[at]];
    if (x !== y) return x < y ? -1 : 1;
  }
  if (one.prerelease === undefined) return other.prerelease === undefined ? 0 : 1;
  if (other.prerelease === undefined) return -1;
  for (let at = 0; ; at++) {
    const [x, y] = [one.prerelease[at], other.prerelease[at]];
    if (x === undefined) return y === undefined ? 0 : -1;
    if (y === undefined) return 1;
    if (x === y) continue;
    const isNumeric = (text: string) => text.replaceAll(/[0-9]/g, '') === '';
    if (isNumeric(x) && isNumeric(y)) return BigInt(x) < BigInt(y) ? -1 : 1;
    if (isNumeric(x)) return -1;
    if (isNumeric(y)) return 1;
    return Buffer.compare(Buffer.from(x), Buffer.from(y));
  }
}

describe('versions of releases', () => {
  it('are ordered as in the example of semver.org', () => {
    const ascending = [
      '1.0.0-alpha',
      '1.0.0-alpha.1',
      '1.0.0-alpha.beta',
      '1.0.0-beta',
      '1.0.0-beta.2',
      '1.0.0-beta.11',
      '1.0.0-rc.1',
      '1.0.0-rc.2',
      '1.0.0-rc.10',
      '1.0.0',
      '1.0.1',
      '1.2.0',
      '1.10.0',
      '2.0.0-rc.1',
      '2.0.0',
      '9007199254740992.0.0',
      '9007199254740993.0.0',
    ];
    for (const [at, a] of ascending.entries()) {
      for (const [bt, b] of ascending.entries()) {
        expect(order(a, b), `${a} ${b}`).to.equal(Math.sign(at - bt));
      }
    }
  });

  it('that differ in build metadata only are equal', () => {
    expect(order('1.0.0+a', '1.0.0+b')).to.equal(0);
    expect(order('1.0.0-rc.1+a', '1.0.0-rc.1')).to.equal(0);
  });

  it('that are none are refused', () => {
    for (const text of [
      '',
      '1',
      '1.2',
      '1.2.3.4',
      'v1.2.3',
      ' 1.2.3',
      '1.2.3\n',
      '01.2.3',
      '1.2.3-',
      '1.2.3-01',
      '1.2.3-a..b',
      '1.2.3+',
      '1.2.3-ä',
      '-1.2.3',
      'dev',
      'latest',
      `1.2.${'9'.repeat(200)}`,
    ]) {
      expect(parseVersion(text), JSON.stringify(text)).to.equal(undefined);
    }
  });

  it('are ordered as a second implementation orders them', () => {
    fc.assert(
      fc.property(written, written, (a, b) => order(a, b) === refereeOrder(a, b)),
      { numRuns: 2_000 },
    );
  });

  it('have one order: it can be reversed, and it is transitive', () => {
    fc.assert(
      fc.property(written, written, written, (a, b, c) => {
        expect(order(a, a)).to.equal(0);
        expect(order(a, b)).to.equal(-order(b, a) + 0);
        if (order(a, b) <= 0 && order(b, c) <= 0) expect(order(a, c)).to.be.at.most(0);
      }),
      { numRuns: 1_000 },
    );
  });
});
