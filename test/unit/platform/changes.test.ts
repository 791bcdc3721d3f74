import { expect } from 'chai';
import { changesOf } from '../../../src/platform/http/changes.ts';

describe('what an update has changed', () => {
  it('is what differs, down to the single setting', () => {
    const both = changesOf(
      { name: 'a', updatedAt: new Date(0), settings: { kept: 1, changed: { deep: true, same: 1 }, gone: 1 } },
      {
        name: 'a',
        updatedAt: new Date(1),
        settings: { kept: 1, changed: { deep: false, same: 1 }, come: null },
      },
    );
    expect(both).to.deep.equal({
      before: { settings: { changed: { deep: true }, gone: 1 } },
      after: { settings: { changed: { deep: false }, come: null } },
    });
  });

  it('shows that a secret was changed, and neither the old nor the new one', () => {
    for (const name of [
      'password',
      'clientSecret',
      'client_secret',
      'API_KEY',
      'refreshToken',
      'privateKeyPem',
      'keyHash',
      'psk',
    ]) {
      for (const wrap of [
        (value: unknown) => ({ [name]: value }),
        (value: unknown) => ({ a: [{ b: { [name]: value } }] }),
      ]) {
        const text = JSON.stringify(changesOf(wrap('hunter1'), wrap('hunter2')));
        expect(text, name).not.to.match(/hunter/);
      }
      expect(changesOf({ [name]: 'hunter1' }, { [name]: { inner: 'hunter2' } })).to.deep.equal({
        before: { [name]: '(secret)' },
        after: { [name]: '(secret)' },
      });
    }
    expect(changesOf({ pin: 1234 }, { pin: null })).to.deep.equal({
      before: { pin: '(secret)' },
      after: { pin: null },
    });
  });

  it('shows what only sounds like a secret', () => {
    const before = { requirePassword: true, passwordMinLength: 8, keyboard: 'de', tokenizer: 'a' };
    const after = { requirePassword: false, passwordMinLength: 12, keyboard: 'us', tokenizer: 'b' };
    expect(changesOf(before, after)).to.deep.equal({ before, after });
  });

  it('is never long, however long the values are', () => {
    const long = (character: string) => ({
      content: character.repeat(100_000),
      list: Array.from({ length: 2000 }, (_, n) => `${character}${n}`),
      deep: Array.from({ length: 200 }).reduce<unknown>((inner) => ({ inner }), character.repeat(9000)),
      ...Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`field${n}`, character.repeat(400)])),
    });
    const both = changesOf(long('a'), long('b'));
    expect(JSON.stringify(both).length).to.be.lessThan(30_000);
    expect(both.after['content']).to.equal(`${'b'.repeat(500)}… (100000 characters)`);
    expect(both.after['list']).to.match(/^\(\d+ characters, too long to keep\)$/);
  });

  it('takes names that mean something to JavaScript', () => {
    const after = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}') as object;
    expect(JSON.stringify(changesOf({}, { settings: after }).after)).to.equal(
      '{"settings":{"__proto__":{"a":1},"constructor":2}}',
    );
  });
});
