import { expect } from 'chai';
import fc from 'fast-check';
import { canonicalPath, escapeLiteral, pathBytes, pathText } from '../../../src/protocol/index.ts';

const latin = (text: string) => Buffer.from(text, 'latin1');

describe('paths of devices as text', () => {
  it('are what they are if they are UTF-8, and name each other byte', () => {
    for (const path of [
      '/srv/é 日本 👩‍💻',
      'C:\\Users',
      'dev-disk-by\\x2duuid.swap',
      'a\\b\\',
      '\ufffd',
      '\ufeffx',
      '\\xg9',
      '\\Xe9',
      '\\u00e9',
    ]) {
      expect(pathText(Buffer.from(path))).to.equal(path);
    }
    expect(pathText(latin('latin-\xe9t\xe9.txt'))).to.equal('latin-\\xe9t\\xe9.txt');
    expect(pathText(latin('bad-\xff\xfe'))).to.equal('bad-\\xff\\xfe');
    // Overlong, a surrogate, beyond Unicode, and the begin of a character at the end.
    for (const bytes of ['c0af', 'eda080', 'f4908080', 'e282']) {
      expect(pathText(Buffer.from(bytes, 'hex'))).to.equal(bytes.replaceAll(/../g, '\\x$&'));
    }
  });

  it('tell a byte from a name that holds its escape', () => {
    expect(pathText(Buffer.from('latin-\\xe9'))).to.equal('latin-\\x5cxe9');
    expect(pathText(Buffer.from('\\x5cxe9'))).to.equal('\\x5cx5cxe9');
    expect(pathText(latin('\\\xff'))).to.equal('\\\\xff');
    expect(Buffer.from(pathBytes('\\\\xff')).toString('latin1')).to.equal('\\\xff');
    expect(escapeLiteral('/a\\xE9')).to.equal('/a\\x5cxE9');
    expect(canonicalPath('/\\xC3\\xA9\\xFF')).to.equal('/é\\xff');
  });

  it('give back every path, and a different text for each', () => {
    const odd = fc.constantFrom('\\', 'x', '5', 'c', 'e', '9', 'E', '\xff', '\xe9', '\xc3', '\xa9', '/', 'a');
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((each) => Buffer.from(each)),
      fc.array(odd, { maxLength: 20 }).map((each) => latin(each.join(''))),
    );
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        expect(Buffer.from(pathBytes(pathText(one))).equals(one)).to.equal(true);
        expect(canonicalPath(pathText(one))).to.equal(pathText(one));
        expect(pathText(one) === pathText(other)).to.equal(one.equals(other));
      }),
      { numRuns: 2000 },
    );
  });

  it('are parted at slashes as their bytes are', () => {
    const name = fc
      .uint8Array({ maxLength: 12 })
      .map((each) => Buffer.from(each.filter((byte) => byte !== 0x2f)));
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), (names) => {
        const whole = names.flatMap((each, at) => (at === 0 ? [each] : [Buffer.from('/'), each]));
        expect(pathText(Buffer.concat(whole)).split('/')).to.deep.equal(names.map((each) => pathText(each)));
      }),
    );
  });
});
