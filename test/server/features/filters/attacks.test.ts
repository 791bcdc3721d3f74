import { expect } from 'chai';
import pg from 'pg';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { blockedMs } from '../../../support/processor-time.ts';
import { all, of } from './conditions.ts';
import { filterGround } from './filter-ground.ts';

/** On an idle machine it is some 40 ms at most; before there were limits it was half a minute. */
const BLOCKED_MS_MAX = 500;

describe('one person with the right to read filters', () => {
  const ground = filterGround();
  const { send } = ground;

  const dots = (n: number) => `${'.{0,255}'.repeat(30)}${n}`;
  const matching = (patterns: string[]) =>
    all(...patterns.map((pattern) => of('hostname', 'matches', pattern)));
  const patterns = (count: number, make: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => make(n));

  it('does not hold up the server with regular expressions that grow large', async () => {
    const conditions = matching(patterns(330, dots));
    const blocked = await blockedMs(async () => {
      for (const [path, body] of [
        ['/filters/preview', { conditions }],
        ['/filters', { name: 'large', conditions, orgId: ground.tenant.orgId }],
      ] as const) {
        const answer = await send('POST', path, body);
        expect([answer.status, answer.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
        expect(answer.body.error).to.include('at most 1000 characters with repetitions expanded');
      }
    });
    expect(blocked).to.be.lessThan(BLOCKED_MS_MAX);
  });

  it('does not end the server by following hundreds of them', async () => {
    const client = await connectDashboard(ground.app, ground.tenant.admin.token);
    try {
      const blocked = await blockedMs(async () => {
        const answer = await client.send('devices:subscribe', { conditions: matching(patterns(700, dots)) });
        expect([answer.ok, answer.error.code]).to.deep.equal([false, 'VALIDATION_FAILED']);
      });
      expect(blocked).to.be.lessThan(BLOCKED_MS_MAX);
    } finally {
      client.close();
    }
  });

  it('does not hold up the server with the largest that are taken', async () => {
    // Each at half of what a filter may have of it.
    const conditions = matching([
      `(a?){110}${'x'.repeat(120)}`,
      `(b?){110}${'y'.repeat(120)}`,
      '[ab]{250}[cd]{250}[ef]{250}',
    ]);
    const blocked = await blockedMs(async () => {
      const made = await send('POST', '/filters', { name: 'x', conditions, orgId: ground.tenant.orgId });
      expect(made.status).to.equal(201);
      const path = `/filters/${made.body.id}`;
      expect((await send('GET', path)).status).to.equal(200);
      expect((await send('PATCH', path, { name: 'y' })).status).to.equal(200);
      expect((await send('POST', `${path}/preview`)).status).to.equal(200);
    });
    expect(blocked).to.be.lessThan(BLOCKED_MS_MAX);
  });

  it('keeps no connection from others, and is told when to come back', async () => {
    const blocker = new pg.Client(ground.app.database.ownerUrl);
    await blocker.connect();
    try {
      await blocker.query('begin; lock table saved_filters in access exclusive mode');
      const mine = Array.from({ length: 60 }, () => send('GET', '/filters'));
      const refused = await Promise.race(
        mine.map(async (request) => {
          const answer = await request;
          return answer.status === 429 ? answer : new Promise<never>(() => {});
        }),
      );
      expect(refused.body.code).to.equal('RATE_LIMITED');
      expect(Number(refused.headers.get('retry-after'))).to.be.greaterThan(0);
      // Another partner's people find a connection for what is expensive, and everybody for what is cheap.
      const others = ground.stranger.admin;
      expect((await send('GET', '/metrics/now', undefined, others)).status).to.equal(200);
      expect((await send('GET', '/orgs/sites')).status).to.equal(200);
      await blocker.query('rollback');
      const answers = await Promise.all(mine);
      expect(new Set(answers.map(({ status }) => status))).to.deep.equal(new Set([200, 429]));
    } finally {
      await blocker.end();
    }
    await eventually(
      () => send('GET', '/filters'),
      ({ status }) => status === 200,
    );
  });
});
