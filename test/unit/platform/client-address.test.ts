import { expect } from 'chai';
import fc from 'fast-check';
import { createRateLimits } from '../../../src/platform/cluster/rate-limits.ts';
import {
  addressList,
  clientAddress,
  contains,
  countedAddress,
  networkOf,
  addressLimiter,
} from '../../../src/platform/http/client-address.ts';

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
      'x-real-ip if there is nothing else',
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
      'the CDN’s header only if it is trusted',
      '127.0.0.1',
      { 'cf-connecting-ip': '8.8.8.8', 'x-forwarded-for': '198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'the CDN’s header first if it is',
      '127.0.0.1',
      { 'cf-connecting-ip': '8.8.8.8', 'x-forwarded-for': '198.51.100.7' },
      behindCdn,
      '8.8.8.8',
      true,
    ],
    ['a proxy that says nothing', '127.0.0.1', {}, behindProxies, '127.0.0.1', false],
    ['a hop with a port', '127.0.0.1', { 'x-forwarded-for': '1.1.1.1:80' }, behindProxies, '1.1.1.1', true],
    [
      'one of our proxies with a port',
      '127.0.0.1',
      { 'x-forwarded-for': '198.51.100.7:5, 10.1.2.3:443' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'the furthest, if all are proxies of ours',
      '127.0.0.1',
      { 'x-forwarded-for': '10.0.0.8, 10.0.0.9', 'x-real-ip': '8.8.8.8' },
      behindProxies,
      '10.0.0.8',
      true,
    ],
    [
      'the header Forwarded if there is nothing else',
      '127.0.0.1',
      { forwarded: 'for=6.6.6.6, for="[2001:DB8::5]:443";proto=https;by=10.0.0.2, For=10.0.0.1' },
      behindProxies,
      '2001:DB8::5',
      true,
    ],
    [
      'and last of all',
      '127.0.0.1',
      { forwarded: 'for=6.6.6.6', 'x-real-ip': '198.51.100.7' },
      behindProxies,
      '198.51.100.7',
      true,
    ],
    [
      'empty headers',
      '127.0.0.1',
      { 'x-forwarded-for': ' , ', 'x-real-ip': '' },
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

  it('is unreadable if a proxy of ours names none, whatever the other headers say', () => {
    const others = { 'x-real-ip': '198.51.100.7', forwarded: 'for=198.51.100.7' };
    const unreadable: [Record<string, string>, typeof behindProxies][] = [
      [{ 'x-forwarded-for': 'unknown' }, behindProxies],
      [{ 'x-forwarded-for': '1.1.1.1, _hidden, 10.0.0.1' }, behindProxies],
      [{ 'x-forwarded-for': '1.1.1.1, example.com:80' }, behindProxies],
      [{ 'x-forwarded-for': '010.1.1.1' }, behindProxies],
      [{ 'x-forwarded-for': '1.1.1.1', 'cf-connecting-ip': 'unknown' }, behindCdn],
    ];
    for (const [headers, trust] of unreadable) {
      const seen = clientAddress({ peer: '127.0.0.1', headers: { ...others, ...headers } }, trust);
      expect(seen, JSON.stringify(headers)).to.deep.include({ ip: '127.0.0.1', trusted: false });
      expect(seen.unreadable, JSON.stringify(headers)).not.to.equal(undefined);
      expect(countedAddress(seen), 'not counted as the proxy').to.equal(undefined);
    }
    for (const forwarded of [
      'for=unknown',
      'for=_secret:_port',
      'proto=https',
      'for=1.1.1.1;for=2.2.2.2',
      'for="1.1.1.1',
      'for=198.51.100.9;host="a, for=6.6.6.6"',
      String.raw`for=198.51.100.9;host="a, for=6.6.6.6;b=\"c\""`,
    ]) {
      const seen = clientAddress({ peer: '127.0.0.1', headers: { forwarded } }, behindProxies);
      expect(seen.unreadable, forwarded).to.deep.equal({ header: 'forwarded', value: forwarded });
    }
  });

  it('is the address of a hop in whatever form proxies write it', () => {
    const ipv4 = fc.ipV4();
    const ipv6 = fc.ipV6().map((ip) => ip.toLowerCase());
    const port = fc.oneof(
      fc.constant(''),
      fc.integer({ min: 0, max: 65_535 }).map((number) => `:${number}`),
      fc.constantFrom(':', ':_hidden.1-2'),
    );
    const zone = fc.constantFrom('', '%eth0', '%25eth0', '%12');
    const blank = fc.constantFrom('', ' ', '\t ');
    const written = fc.oneof(
      fc.tuple(ipv4, port).map(([ip, end]) => ({ ip, text: `${ip}${end}` })),
      ipv4.map((ip) => ({ ip, text: `[::ffff:${ip}]:80` })),
      ipv4.map((ip) => ({ ip, text: `0:0:0:0:0:FFFF:${ip}` })),
      fc.tuple(ipv6, zone).map(([ip, name]) => ({ ip, text: `${ip}${name}` })),
      fc.tuple(ipv6, zone, port).map(([ip, name, end]) => ({ ip, text: `[${ip}${name}]${end}` })),
    );
    fc.assert(
      fc.property(
        written,
        blank,
        fc.boolean(),
        fc.string({ maxLength: 30 }),
        (hop, space, isQuoted, junk) => {
          const text = isQuoted ? `"${hop.text}"` : hop.text;
          const ask = (headers: Record<string, string>) =>
            clientAddress(
              { peer: '127.0.0.1', headers },
              { ...behindProxies, proxies: addressList(['127.0.0.1']) },
            );
          fc.pre(networkOf(hop.ip) !== '127.0.0.1');
          const expected = { network: networkOf(hop.ip), trusted: true };
          for (const headers of [
            { 'x-forwarded-for': `${junk},${space}${text}${space}, , 127.0.0.1:1` },
            { forwarded: `for=${junk},${space}FOR =${space}${text}${space};proto=https` },
          ]) {
            const { ip, trusted } = ask(headers);
            expect({ network: networkOf(ip), trusted }, JSON.stringify(headers)).to.deep.equal(expected);
          }
        },
      ),
    );
  });

  it('is never trusted and never falls to another header if the nearest hop is no address', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), (text) => {
        const hop = `x${text.replaceAll(',', '')}`;
        const headers = { 'x-forwarded-for': `198.51.100.7, ${hop}`, 'x-real-ip': '198.51.100.7' };
        expect(clientAddress({ peer: '127.0.0.1', headers }, behindProxies).unreadable?.header).to.equal(
          'x-forwarded-for',
        );
      }),
    );
  });

  it('cannot be relied on if no proxies are configured', () => {
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

describe('an address that is counted', () => {
  it('is an IPv4 address as a whole, and an IPv6 one by the network that is assigned to one customer', () => {
    const networks: [string, string][] = [
      ['203.0.113.9', '203.0.113.9'],
      ['::ffff:203.0.113.9', '203.0.113.9'],
      ['::ffff:cb00:7109', '203.0.113.9'],
      ['::FFFF:CB00:7109', '203.0.113.9'],
      ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
      ['2001:db8:1:2::', '2001:db8:1:2::/64'],
      ['2001:0DB8:0001:0002::1', '2001:db8:1:2::/64'],
      ['::1', '0:0:0:0::/64'],
      ['fe80::1%eth0', 'fe80:0:0:0::/64'],
      ['not an address', 'not an address'],
    ];
    for (const [ip, network] of networks) expect(networkOf(ip), ip).to.equal(network);
    expect(networkOf('2001:db8:1:2::1', 48)).to.equal('2001:db8:1::/48');
    const part = fc.integer({ min: 0, max: 0xffff });
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 8, maxLength: 8 }),
        fc.array(part, { minLength: 4, maxLength: 4 }),
        (a, b) => {
          const write = (parts: number[]) => parts.map((one) => one.toString(16)).join(':');
          expect(networkOf(write([...a.slice(0, 4), ...b]))).to.equal(networkOf(write(a)));
        },
      ),
    );
  });

  it('has a limit for its network, and a wider one for the site around that', async () => {
    const limiter = addressLimiter(createRateLimits(undefined), 'test', { points: 2, seconds: 60 });
    const take = (ip: string) =>
      limiter.take(ip).then(
        () => 'taken',
        (error: { code: string }) => error.code,
      );
    expect(await take('2001:db8::1')).to.equal('taken');
    expect(await take('2001:db8::2')).to.equal('taken');
    await limiter.giveBack('2001:db8::9');
    expect(await take('2001:db8::3')).to.equal('taken');
    expect(await limiter.isSpent('2001:db8::5')).to.equal(true);
    expect(await take('2001:db8::4')).to.equal('rate_limited');
    let taken = 0;
    for (let n = 0; n < 60; n++) if ((await take(`2001:db8:1:${n.toString(16)}::1`)) === 'taken') taken++;
    expect(taken).to.equal(32);
    expect(await take('2001:db8:2::1'), 'another site').to.equal('taken');
    expect(await take('203.0.113.9')).to.equal('taken');
  });

  it('is the reported one behind a proxy that is not configured, or none, because everyone behind it has its address', () => {
    const nobody = { proxies: undefined, cfConnectingIp: false };
    const counted = (peer: string, headers: Record<string, string>, trust = nobody) =>
      countedAddress(clientAddress({ peer, headers }, trust));
    expect(counted('172.17.0.1', { 'x-forwarded-for': '6.6.6.6, 198.51.100.7' })).to.equal('198.51.100.7');
    expect(counted('::1', { 'x-real-ip': '198.51.100.7' })).to.equal('198.51.100.7');
    expect(counted('127.0.0.1', { forwarded: 'for=198.51.100.7' })).to.equal('198.51.100.7');
    expect(counted('127.0.0.1', { 'x-forwarded-for': 'unknown' })).to.equal(undefined);
    expect(counted('127.0.0.1', {})).to.equal('127.0.0.1');
    expect(counted('203.0.113.9', { 'x-forwarded-for': '1.1.1.1' }), 'a stranger').to.equal('203.0.113.9');
    const configured = { proxies: addressList(['127.0.0.1']), cfConnectingIp: false };
    expect(counted('10.0.0.5', { 'x-forwarded-for': '1.1.1.1' }, configured as never)).to.equal('10.0.0.5');
  });
});
