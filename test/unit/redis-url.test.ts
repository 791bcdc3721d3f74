import { expect } from 'chai';
import fc from 'fast-check';
import {
  describeRedis,
  hasRedisPassword,
  parseRedisUrl,
  RedisUrlError,
  withRedisPassword,
} from '../../src/redis-url.ts';

describe('the URL of Redis', () => {
  it('names one server', () => {
    expect(parseRedisUrl('redis://127.0.0.1')).to.deep.equal({
      kind: 'single',
      url: 'redis://127.0.0.1',
      nodes: [{ host: '127.0.0.1', port: 6379 }],
      tls: false,
    });
    expect(parseRedisUrl('rediss://user:pass@redis.example.com:6380/2')).to.deep.include({
      kind: 'single',
      nodes: [{ host: 'redis.example.com', port: 6380 }],
      tls: true,
    });
  });

  it('names Sentinels, their master, a database, and who connects to either of them', () => {
    expect(parseRedisUrl('redis+sentinel://10.0.0.1:26380,sentinel-2,[::1]:7/mymaster')).to.deep.equal({
      kind: 'sentinel',
      nodes: [
        { host: '10.0.0.1', port: 26_380 },
        { host: 'sentinel-2', port: 26_379 },
        { host: '::1', port: 7 },
      ],
      tls: false,
      name: 'mymaster',
      db: 0,
    });
    expect(
      parseRedisUrl(
        'rediss+sentinel://muster:p%40%2Fss:w@s1/my%20master/3?sentinel_username=watch&sentinel_password=a%26b',
      ),
    ).to.deep.equal({
      kind: 'sentinel',
      nodes: [{ host: 's1', port: 26_379 }],
      tls: true,
      username: 'muster',
      password: 'p@/ss:w',
      name: 'my master',
      db: 3,
      sentinelUsername: 'watch',
      sentinelPassword: 'a&b',
    });
  });

  it('names nodes of a cluster', () => {
    expect(parseRedisUrl('rediss+cluster://:secret@10.0.0.1,10.0.0.2:7000/')).to.deep.equal({
      kind: 'cluster',
      nodes: [
        { host: '10.0.0.1', port: 6379 },
        { host: '10.0.0.2', port: 7000 },
      ],
      tls: true,
      password: 'secret',
    });
  });

  it('is refused with the rule that it breaks, and without what it holds', () => {
    for (const [url, rule] of [
      ['', 'must be a URL such as redis://127.0.0.1:6379'],
      ['http://secret@127.0.0.1', 'must be a URL such as redis://127.0.0.1:6379'],
      ['redis:secret', 'must be a URL such as'],
      ['redis://', 'must be a URL such as'],
      ['redis://a:secret@h1:1,h2:2', 'must be a URL such as'],
      ['redis+sentinel://:secret@s1', 'name the master after the Sentinels'],
      ['redis+sentinel://:secret@s1/', 'name the master after the Sentinels'],
      ['redis+sentinel://:secret@s1/a/1/2', 'name the master after the Sentinels'],
      ['redis+sentinel://:secret@s1/a/one', 'the database after the name of the master must be a number'],
      ['redis+sentinel://:secret@s1/a?db=1', 'the parameters are sentinel_username and sentinel_password'],
      ['redis+cluster://:secret@h1/1', 'a Redis Cluster has no database and no parameters'],
      ['redis+cluster://:secret@h1?tls=true', 'a Redis Cluster has no database and no parameters'],
      ['redis+cluster://:secret@', 'each node must be host:port'],
      ['redis+cluster://:secret@h1,', 'each node must be host:port'],
      ['redis+cluster://:secret@h1:70000', 'each node must be host:port'],
      ['redis+cluster://:secret@h1:0', 'each node must be host:port'],
      ['redis+cluster://:secret@h1 h2', 'each node must be host:port'],
      ['redis+cluster://:secret%@h1', 'write a percent sign as %25'],
    ] as const) {
      expect(() => parseRedisUrl(url), url).to.throw(RedisUrlError, rule);
      try {
        parseRedisUrl(url);
      } catch (error) {
        expect(String(error), url).not.to.include('secret');
      }
    }
  });

  it('is named in messages without user and password', () => {
    for (const [url, named] of [
      ['redis://muster:secret@127.0.0.1/1', 'redis://127.0.0.1:6379'],
      ['rediss+cluster://muster:secret@h1,[::1]:2', 'rediss+cluster://h1:6379,[::1]:2'],
      ['redis+sentinel://:secret@s1/m?sentinel_password=secret', 'redis+sentinel://s1:26379'],
    ] as const) {
      expect(describeRedis(parseRedisUrl(url))).to.equal(named);
      expect(hasRedisPassword(url), url).to.equal(true);
    }
    expect(hasRedisPassword('redis+sentinel://s1/m?sentinel_password=secret')).to.equal(true);
    for (const url of ['redis://h1', 'redis://user@h1', 'redis+cluster://h1', 'redis+sentinel://s1/m']) {
      expect(hasRedisPassword(url), url).to.equal(false);
    }
  });

  it('gets any password, and has it afterwards', () => {
    const urls = [
      'redis+cluster://h1,h2:2',
      'redis+sentinel://muster@s1,s2:3/name/1',
      'rediss+cluster://muster@h1/',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...urls), fc.string({ minLength: 1 }), (url, password) => {
        const before = parseRedisUrl(url);
        expect(parseRedisUrl(withRedisPassword(url, password))).to.deep.equal({ ...before, password });
      }),
    );
    const one = new URL(withRedisPassword('redis://muster@127.0.0.1:1/2', 'p@/s:s'));
    expect([one.username, decodeURIComponent(one.password), one.host, one.pathname]).to.deep.equal([
      'muster',
      'p@/s:s',
      '127.0.0.1:1',
      '/2',
    ]);
  });

  it('is read or refused, whatever it is', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('', 'redis', 'rediss+cluster://', 'redis+sentinel://', 'redis://'),
        fc.string(),
        (start, rest) => {
          try {
            expect(parseRedisUrl(start + rest).nodes).not.to.be.empty;
          } catch (error) {
            expect(error).to.be.instanceOf(RedisUrlError);
          }
        },
      ),
    );
    expect(() => parseRedisUrl(`redis+cluster://${'a,'.repeat(300_000)}`)).to.throw(RedisUrlError);
    expect(() => parseRedisUrl(`redis+cluster://${'@'.repeat(500_000)}`)).to.throw(RedisUrlError);
  });
});
