import { expect } from 'chai';
import {
  challengeIn,
  isCountBack,
  relyingPartyOf,
  userHandleOf,
} from '../../../../src/features/auth/webauthn.ts';

describe('answers of authenticators', () => {
  it('belong to the host of the public address, whatever its path and port', () => {
    for (const [address, id, origin] of [
      ['https://muster.example.com', 'muster.example.com', 'https://muster.example.com'],
      ['https://Muster.Example.com:443/rmm/', 'muster.example.com', 'https://muster.example.com'],
      ['https://rmm.example.com:8443/a/b?c', 'rmm.example.com', 'https://rmm.example.com:8443'],
      ['http://localhost:3000', 'localhost', 'http://localhost:3000'],
      ['https://bücher.example', 'xn--bcher-kva.example', 'https://xn--bcher-kva.example'],
    ] as const) {
      expect(relyingPartyOf(address), address).to.deep.equal({ id, origin });
    }
  });

  it('name a challenge, or are of no use', () => {
    const encoded = (text: string) => Buffer.from(text).toString('base64url');
    const given = (data: object) => challengeIn(encoded(JSON.stringify(data)));
    expect(given({ challenge: 'abc', type: 'webauthn.get', origin: 'x', more: {} })).to.equal('abc');
    expect(given({ challenge: 'abc', crossOrigin: false })).to.equal('abc');
    for (const data of [
      { challenge: 'abc', crossOrigin: true },
      { challenge: 'abc', crossOrigin: 'true' },
      { challenge: '' },
      { challenge: 'a'.repeat(201) },
      { challenge: ['abc'] },
      {},
      [],
    ]) {
      expect(given(data), JSON.stringify(data)).to.equal(undefined);
    }
    for (const text of ['', 'null', '{"challenge":"abc"', `\u{feff}{"challenge":"abc"}`]) {
      expect(challengeIn(encoded(text)), text).to.equal(undefined);
    }
  });

  it('count up, or do not count at all', () => {
    for (const [stored, shown] of [
      [0, 0],
      [0, 1],
      [0, 4_294_967_295],
      [7, 8],
      [7, 100],
    ] as const) {
      expect(isCountBack(stored, shown), `${stored} → ${shown}`).to.equal(false);
    }
    for (const [stored, shown] of [
      [1, 1],
      [1, 0],
      [8, 7],
      [4_294_967_295, 1],
    ] as const) {
      expect(isCountBack(stored, shown), `${stored} → ${shown}`).to.equal(true);
    }
  });

  it('name a person by the sixteen bytes of the id', () => {
    const handle = userHandleOf('01900000-0000-7000-8000-0000000000ff');
    expect(Buffer.from(handle, 'base64url').toString('hex')).to.equal('019000000000700080000000000000ff');
  });
});
