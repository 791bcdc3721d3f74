import { expect } from 'chai';
import fc from 'fast-check';
import { jsonTextFault } from '../../../src/platform/http/parse-body.ts';

function repeatedKey(json: string): string | undefined {
  const fault = jsonTextFault(json);
  if (fault !== undefined) expect(fault.message).to.equal('Duplicate key.');
  return fault?.path;
}

describe('a key that stands twice in an object', () => {
  it('is found at any depth, however it is written', () => {
    expect(repeatedKey('{"a":1,"b":2,"a":3}')).to.equal('a');
    expect(repeatedKey('{"a":[{"b":{"c":1,"d":"}","c":2}}]}')).to.equal('a.0.b.c');
    expect(repeatedKey('[0, {"x": "\\"", "y": [1, 2], "\\u0078": 3}]')).to.equal('1.x');
    expect(repeatedKey('{"__proto__":1,"__proto__":2}')).to.equal('__proto__');
  });

  it('is not seen if there is none', () => {
    expect(repeatedKey('{"a":{"a":[{"a":1},{"a":1}]},"b":"a","c":"{\\"a\\":1,\\"a\\":2}"}')).to.equal(
      undefined,
    );
    expect(repeatedKey('"a"')).to.equal(undefined);
    expect(repeatedKey(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)).to.equal(undefined);
  });

  it('is distinguished from everything that JSON can contain', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.boolean(), (json, spaced) => {
        // What was printed from a value has no key twice.
        const value: unknown = JSON.parse(json);
        expect(repeatedKey(spaced ? JSON.stringify(value, null, 2) : JSON.stringify(value))).to.equal(
          undefined,
        );
      }),
    );
    fc.assert(
      fc.property(
        fc.array(fc.string(), { minLength: 1, maxLength: 6 }),
        fc.nat(),
        fc.jsonValue(),
        (keys, pick, value) => {
          const again = keys[pick % keys.length] ?? '';
          const unique = [...new Set(keys)];
          const members = [...unique, again].map((key) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
          expect(repeatedKey(`{${members.join(', ')}}`)).to.equal(again);
        },
      ),
    );
  });
});

describe('a number that is too large', () => {
  const tooLarge = (json: string) => {
    const fault = jsonTextFault(json);
    if (fault !== undefined) expect(fault.message).to.include('1.8e308');
    return fault?.path;
  };

  it('is found at any depth', () => {
    expect(tooLarge('1e309')).to.equal('');
    expect(tooLarge('[0,-1E+309]')).to.equal('1');
    expect(tooLarge('{"a":[1.5,{"b":0.1e310 }]}')).to.equal('a.1.b');
    expect(tooLarge(`{"a":${'9'.repeat(309)}}`)).to.equal('a');
  });

  it('is distinguished from every other number, and from texts', () => {
    for (const json of [
      '1.7976931348623157e308',
      '1e-999',
      '{"1e999":"1e999"}',
      '[0, -0, 1E5, true, null]',
    ]) {
      expect(tooLarge(json), json).to.equal(undefined);
    }
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(tooLarge(JSON.stringify({ value }))).to.equal(undefined);
      }),
    );
  });
});
