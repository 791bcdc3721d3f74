import { expect } from 'chai';
import fc from 'fast-check';
import { addressList, clientAddress, contains } from '../../src/platform/http/client-address.ts';

const proxies = addressList(['127.0.0.1', '10.0.0.0/8', 'fd00::/8']);
const behindProxies = { proxies, cfConnectingIp: false };
const behindCdn = { proxies, cfConnectingIp: true };

describe('the client address', () => {
  const cases: [string, string, Record<string, string>, typeof behindProxies, string, boolean][] = [
    ['a direct connection is who it is', '203.0.113.9', {}, behindProxies, '203.0.113.9', true],
    [
      'a direct connection cannot make itself another',
      '203.0.113.9',
      { 'x-forwarded-for': '1.1.1.1', 'x-real-ip': '1.1.1.1', 'cf-connecting-ip': '1.1.1.1' },
      behindCdn,
      '203.0.113.9',
      true,
    ],
    [
      'a proxy names the client',
      '127.0.0.1',
      { 'x-forwarded-for': '198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'what the client wrote itself stands further left',
      '127.0.0.1',
      { 'x-forwarded-for': '6.6.6.6, 198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'two proxies of ours',
      '127.0.0.1',
      { 'x-forwarded-for': '6.6.6.6, 198.51.100.7, 10.1.2.3' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'IPv4 mapped into IPv6',
      '::ffff:127.0.0.1',
      { 'x-forwarded-for': '::ffff:198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    ['IPv6', 'fd00::1', { 'x-forwarded-for': '2001:db8::5' }, behindProxies, '2001:db8::5', true],
    [
      'x-real-ip where there is nothing else',
      '127.0.0.1',
      { 'x-real-ip': '198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'x-forwarded-for before x-real-ip',
      '127.0.0.1',
      { 'x-forwarded-for': '198.51.100.7', 'x-real-ip': '8.8.8.8' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'the CDN’s header only where it is trusted',
      '127.0.0.1',
      { 'cf-connecting-ip': '8.8.8.8', 'x-forwarded-for': '198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'the CDN’s header first where it is',
      '127.0.0.1',
      { 'cf-connecting-ip': '8.8.8.8', 'x-forwarded-for': '198.51.100.7' },
      behindCdn,
      '8.8.8.8',
      true,
    ],
    ['a proxy that says nothing', '127.0.0.1', {}, behindProxies, '127.0.0.1', false],
    [
      'a proxy that says nonsense',
      '127.0.0.1',
      { 'x-forwarded-for': 'unknown' },
      behindProxies,
      '127.0.0.1',
      false,
    ],
    [
      'nonsense between hops',
      '127.0.0.1',
      { 'x-forwarded-for': '1.1.1.1, x, 10.0.0.1' },
      behindProxies,
      '127.0.0.1',
      false,
    ],
    [
      'a port behind the address is nonsense',
      '127.0.0.1',
      { 'x-forwarded-for': '1.1.1.1:80' },
      behindProxies,
      '127.0.0.1',
      false,
    ],
  ];
  for (const [name, peer, headers, trust, ip, trusted] of cases) {
    it(name, () => {
      expect(clientAddress({ peer, headers }, trust)).to.deep.equal({ ip, trusted });
    });
  }

  it('is nobody’s to rely on where no proxies are configured', () => {
    const headers = { 'x-forwarded-for': '1.1.1.1' };
    expect(
      clientAddress({ peer: '203.0.113.9', headers }, { proxies: undefined, cfConnectingIp: true }),
    ).to.deep.equal({ ip: '203.0.113.9', trusted: false });
  });

  it('never is what a stranger writes, whatever they write', () => {
    const written = fc.string({ maxLength: 60 });
    fc.assert(
      fc.property(written, written, written, (forwarded, real, cf) => {
        const headers = { 'x-forwarded-for': forwarded, 'x-real-ip': real, 'cf-connecting-ip': cf };
        expect(clientAddress({ peer: '203.0.113.9', headers }, behindCdn).ip).to.equal('203.0.113.9');
        const behind = clientAddress(
          { peer: '127.0.0.1', headers: { 'x-forwarded-for': `${forwarded}, 198.51.100.7` } },
          behindProxies,
        );
        expect(behind).to.deep.equal({ ip: '198.51.100.7', trusted: true });
      }),
    );
  });

  it('is looked up in lists of addresses and ranges of both families', () => {
    const list = addressList(['203.0.113.4', '198.51.100.0/24', '2001:db8::/32']);
    for (const ip of ['203.0.113.4', '198.51.100.255', '2001:db8:1::1']) {
      expect(contains(list, ip), ip).to.equal(true);
    }
    for (const ip of ['203.0.113.5', '198.51.101.0', '2001:db9::1', '', 'x']) {
      expect(contains(list, ip), ip).to.equal(false);
    }
  });
});
