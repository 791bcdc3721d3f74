import { expect } from 'chai';
import fc from 'fast-check';
import pg from 'pg';
import { credentialsOf, databaseUrlFault, serversOf, withCredentials } from '../../src/database-url.ts';

describe('the URL of Postgres', () => {
  it('names one server, which is left as it is', () => {
    for (const url of [
      'postgres://owner:p%40ss@db.example:5433/muster?sslmode=disable',
      'postgresql://db/muster',
      'postgres://[::1]:5432/muster',
      'postgres:///muster?host=/var/run/postgresql',
      'postgres://%2Fvar%2Frun%2Fpostgresql/muster',
    ]) {
      expect(serversOf(url), url).to.deep.equal([url]);
      expect(databaseUrlFault(url), url).to.equal(undefined);
    }
  });

  it('names several servers, each of which becomes a URL that the driver reads', () => {
    const url =
      'postgres://owner:p,w%2F@one:5433,two,[::1]:7/muster?sslmode=disable&target_session_attrs=read-write';
    expect(databaseUrlFault(url)).to.equal(undefined);
    const seen = serversOf(url).map((server) => new pg.Client({ connectionString: server }));
    expect(
      seen.map(({ host, port, user, password, database }) => [host, port, user, password, database]),
    ).to.deep.equal([
      ['one', 5433, 'owner', 'p,w/', 'muster'],
      ['two', 5432, 'owner', 'p,w/', 'muster'],
      ['::1', 7, 'owner', 'p,w/', 'muster'],
    ]);
  });

  it('can be for another user of the same servers, whatever the password is', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, unit: 'grapheme' }),
        fc.constantFrom('', 'owner@', 'owner:old@'),
        (password, user) => {
          const url = withCredentials(`postgres://${user}one,two:5433/muster?a=b`, 'svc_app', password);
          expect(credentialsOf(url)).to.deep.equal({ user: 'svc_app', password });
          expect(serversOf(url).map((server) => new URL(server).host)).to.deep.equal(['one', 'two:5433']);
          expect(new URL(serversOf(url)[1] ?? '').searchParams.get('a')).to.equal('b');
        },
      ),
    );
  });

  it('is refused with the rule that it breaks', () => {
    const faults: [string, RegExp][] = [
      ['', /^must be a URL such as postgres:/],
      ['mysql://one/muster', /^must be a URL such as postgres:/],
      ['postgres://one:99999/muster', /^must be a URL such as postgres:/],
      ['postgres://one:5432,two:port/muster', /^must be a URL such as postgres:/],
      ['postgres://one,/muster', /^must name a host before and after each comma/],
      ['postgres://owner@,two/muster', /^must name a host before and after each comma/],
      [
        `postgres://${Array.from({ length: 10 }, (_, at) => `db${at}`).join(',')}/muster`,
        /^must name at most 9 servers$/,
      ],
      ['postgres://one,two/muster?port=5433', /not in the parameters host and port$/],
      [
        'postgres://one,two/muster?target_session_attrs=prefer-standby',
        /^must have target_session_attrs=read-write or none/,
      ],
      [
        'postgres://one/muster?target_session_attrs=any',
        /^must have target_session_attrs=read-write or none/,
      ],
    ];
    for (const [url, fault] of faults) expect(databaseUrlFault(url), url).to.match(fault);
    // A megabyte of nonsense is answered at once.
    expect(databaseUrlFault(`postgres://${','.repeat(1_000_000)}`)).to.match(/at most 9 servers$/);
    expect(databaseUrlFault(`postgres://${'@'.repeat(1_000_000)},:`)).to.match(/^must name a host/);
  });
});
