import { expect } from 'chai';
import { buildDevice } from '../../../support/factories.ts';
import { all, of } from './conditions.ts';
import { filterGround } from './filter-ground.ts';

describe('saved filters that are too much', () => {
  const ground = filterGround();
  const { send, owner } = ground;

  const raw = (path: string, rawBody: string) =>
    ground.app.call('POST', path, { token: ground.tenant.admin.token, rawBody });
  const deep = (levels: number, leaf = JSON.stringify(of('hostname', 'isNotNull'))) =>
    '{"operator":"AND","conditions":['.repeat(levels) + leaf + ']}'.repeat(levels);

  it('are not what is 20,000 levels deep: that is made, listed, read back, previewed, explained and deleted', async () => {
    const device = await buildDevice(ground.app, ground.tenant.orgId);
    const conditions = deep(20_000);
    const made = await raw(
      '/filters',
      `{"orgId":"${ground.tenant.orgId}","name":"deep","conditions":${conditions}}`,
    );
    expect(made.status).to.equal(201);
    const path = `/filters/${made.body.id}`;
    for (const [method, where] of [
      ['GET', path],
      ['PATCH', path],
      ['GET', '/filters'],
      ['DELETE', path],
    ] as const) {
      if (method === 'DELETE') {
        expect((await send('POST', `${path}/preview`)).body.data.totalCount).to.equal(1);
        expect((await raw('/filters/preview', `{"conditions":${conditions}}`)).body.data.totalCount).to.equal(
          1,
        );
        const { body } = await send('POST', '/filters/explain', {
          filterId: made.body.id,
          deviceId: device.deviceId,
        });
        expect([body.data.matched, body.data.conditions.length]).to.deep.equal([true, 1]);
      }
      const response = await fetch(`${ground.app.url}/api/v1${where}`, {
        method,
        headers: { authorization: `Bearer ${ground.tenant.admin.token}`, 'content-type': 'application/json' },
        ...(method === 'PATCH' ? { body: '{"name":"deeper"}' } : {}),
      });
      expect(response.status).to.equal(200);
      expect((await response.text()).includes(`"conditions":${conditions}`), where).to.equal(true);
    }
    const wrong = await raw(
      '/filters/preview',
      `{"conditions":${deep(20_000, '{"field":"x","operator":"equals"}')}}`,
    );
    expect([wrong.status, wrong.body.details.length]).to.deep.equal([400, 1]);
  });

  it('are bodies of more than a megabyte', async () => {
    const body = `{"conditions":${JSON.stringify(all(of('hostname', 'equals', 'x'.repeat(2_000_000))))}}`;
    for (const path of ['/filters', '/filters/preview', '/filters/explain']) {
      const { status, body: answer } = await raw(path, body);
      expect([status, answer.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
    }
  });

  it('are not 65,536 values, nor hostile expressions, which are answered in time or refused', async () => {
    const values = Array.from({ length: 65_536 }, (_, n) => `h${n}`);
    const many = await send('POST', '/filters/preview', {
      conditions: all(of('hostname', 'notIn', values)),
    });
    expect([many.status, many.body.data?.totalCount]).to.deep.equal([200, 0]);
    await owner(
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, os_build, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, repeat('a', 250), 'linux', repeat('a', 199) || '!', repeat('ab', 50), 'x64', '1', now() from generate_series(1, 500) n`,
      [ground.tenant.orgId, ground.tenant.siteId],
    );
    for (const [pattern, expected] of [
      ['(a+)+$', [200]],
      ['^(a|aa)+$', [200]],
      ['(x+x+)+y', [200]],
      ['(a?)'.repeat(60), [200]],
      ['(a{200}){200}', [400]],
      ['[^a]{255}'.repeat(20), [200, 400]],
      ['((a*)*)*$', [200]],
      ['(a)\\1', [400]],
    ] as const) {
      const begun = performance.now();
      const { status } = await send('POST', '/filters/preview', {
        conditions: all(of('osVersion', 'matches', pattern)),
      });
      expect(status, pattern).to.be.oneOf(expected);
      // Far less than an engine takes that tries every way.
      expect(performance.now() - begun, pattern).to.be.lessThan(25_000);
    }
  });
});
