import { inspect } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import { isExcepted, ProxyRules, Proxy } from '../../../../../src/agent/os/network/proxy-rules.ts';

const SERVER = new URL('https://rmm.example.com');
const proxyOf = (environment: Record<string, string>, url = SERVER) =>
  new ProxyRules({}, environment).proxyFor(url)?.address;

describe('agent: which proxy a URL is reached through', () => {
  it('is named by HTTPS_PROXY for https and wss, and by HTTP_PROXY for http and ws, in either case', () => {
    const environment = { HTTPS_PROXY: 'http://secure:1', http_proxy: 'plain:2' };
    expect(proxyOf(environment)).to.equal('http://secure:1');
    expect(proxyOf(environment, new URL('wss://rmm.example.com'))).to.equal('http://secure:1');
    expect(proxyOf(environment, new URL('http://rmm.example.com'))).to.equal('http://plain:2');
    expect(proxyOf(environment, new URL('ws://rmm.example.com'))).to.equal('http://plain:2');
    expect(proxyOf({ https_proxy: 'lower', HTTPS_PROXY: 'upper' })).to.equal('http://lower:80');
    expect(proxyOf({ https_proxy: ' ', HTTPS_PROXY: 'https://upper' })).to.equal('https://upper:443');
    expect(proxyOf({})).to.equal(undefined);
  });

  it('is none for this machine itself, unless the settings of the agent name the proxy', () => {
    for (const host of ['localhost', '127.0.0.1', '127.1.2.3', '[::1]', 'x.localhost']) {
      const url = new URL(`https://${host}:8443`);
      expect(proxyOf({ HTTPS_PROXY: 'p' }, url), host).to.equal(undefined);
      expect(new ProxyRules({ proxy: 'p' }, {}).proxyFor(url)?.address, host).to.equal('http://p:80');
    }
  });

  it('is that of the settings, whatever the environment says', () => {
    const environment = { HTTPS_PROXY: 'http://other', NO_PROXY: '*' };
    const rules = new ProxyRules({ proxy: 'mine:8080', noProxy: 'files.example.com' }, environment);
    expect(rules.proxyFor(SERVER)?.address).to.equal('http://mine:8080');
    expect(rules.proxyFor(new URL('https://files.example.com'))).to.equal(undefined);
    expect(new ProxyRules({ proxy: 'none' }, { HTTPS_PROXY: 'p' }).proxyFor(SERVER)).to.equal(undefined);
  });

  it('is none for what NO_PROXY names', () => {
    const cases: [noProxy: string, url: string, isExcepted: boolean][] = [
      ['*', 'https://rmm.example.com', true],
      ['example.com', 'https://rmm.example.com', true],
      ['.example.com', 'https://rmm.example.com', true],
      ['*.example.com', 'https://RMM.example.com.', true],
      ['EXAMPLE.COM.', 'https://example.com', true],
      ['ample.com', 'https://example.com', false],
      ['rmm.example.com', 'https://example.com', false],
      ['a, b  rmm.example.com', 'https://rmm.example.com', true],
      ['rmm.example.com:443', 'https://rmm.example.com', true],
      ['rmm.example.com:443', 'wss://rmm.example.com', true],
      ['rmm.example.com:443', 'https://rmm.example.com:8443', false],
      ['rmm.example.com:80', 'http://rmm.example.com', true],
      ['10.0.0.0/8', 'https://10.200.3.4', true],
      ['10.0.0.0/8', 'https://11.0.0.1', false],
      ['10.0.0.0/8', 'https://10.example.com', false],
      ['10.0.0.1', 'https://10.0.0.1:8443', true],
      ['0.0.1', 'https://10.0.0.1', false],
      ['fd00::/8', 'https://[fd12::1]', true],
      ['fd12:0::1', 'https://[fd12::1]', true],
      ['[fd12::1]:8443', 'https://[fd12::1]:8443', true],
      ['[fd12::1]:8443', 'https://[fd12::1]', false],
      ['fd00::/8', 'https://10.0.0.1', false],
      ['', 'https://rmm.example.com', false],
      [', ,', 'https://rmm.example.com', false],
      ['10.0.0.0/99', 'https://10.0.0.1', false],
      ['.', 'https://rmm.example.com', false],
    ];
    for (const [noProxy, url, expected] of cases) {
      expect(isExcepted(new URL(url), noProxy), `${noProxy} ${url}`).to.equal(expected);
    }
  });

  it('can be found whatever NO_PROXY holds', () => {
    fc.assert(fc.property(fc.string(), (noProxy) => void isExcepted(SERVER, noProxy)));
  });
});

describe('agent: the address of a proxy', () => {
  it('signs in with the user and password in it, which are never shown', () => {
    const proxy = Proxy.parse('http://us%40er:pass%3Aword%2F@proxy.example.com:3128', 'HTTPS_PROXY');
    expect(proxy.headers()).to.deep.equal({
      'proxy-authorization': `Basic ${Buffer.from('us@er:pass:word/').toString('base64')}`,
    });
    const shown = [
      JSON.stringify(proxy),
      inspect(proxy, { depth: 9, showHidden: true }),
      proxy.address,
    ].join();
    expect(shown)
      .to.contain('proxy.example.com')
      .and.not.match(/pass|word|us%40er|Basic/);
    expect(Proxy.parse('proxy:1', 'x').headers()).to.deep.equal({});
  });

  it('is refused with a reason that does not repeat it', () => {
    for (const text of [
      'http://user:secret@',
      'socks5://user:secret@proxy:1080',
      'http://user:sec/ret@proxy:3128',
      'http://user:sec#ret@proxy:3128',
      'http://user:%secret@proxy:3128',
      'http://user:secret@proxy:99999',
      'http://proxy:3128/?secret',
    ]) {
      expect(() => Proxy.parse(text, 'HTTPS_PROXY'), text)
        .to.throw(/in HTTPS_PROXY/)
        .with.property('message')
        .that.does.not.match(/sec|ret@/);
    }
  });

  it('reaches its port and host also by IPv6', () => {
    const { host, port, address } = Proxy.parse('http://[::1]:3128', 'x');
    expect([host, port, address]).to.deep.equal(['::1', 3128, 'http://[::1]:3128']);
  });
});
