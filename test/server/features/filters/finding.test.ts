import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { LINUX, all, of } from './conditions.ts';
import { filterGround } from './filter-ground.ts';

describe('saved filters find devices', () => {
  const ground = filterGround();
  const { send, owner, create, trailOf, pathsOf } = ground;

  let devices: EnrolledDevice[];
  beforeEach(async () => {
    const other = await buildOrganization(ground.app, ground.tenant.partnerId);
    await buildSite(ground.app, other);
    devices = [];
    for (const [index, orgId] of [ground.tenant.orgId, other, ground.tenant.orgId, other].entries()) {
      devices.push(
        await buildDevice(ground.app, orgId, {
          hostname: `HOST-${'dbca'[index] ?? ''}`,
          osType: index === 3 ? 'macos' : 'linux',
        }),
      );
    }
    await buildDevice(ground.app, ground.stranger.orgId, { hostname: 'HOST-x' });
  });
  const idOf = (index: number) => devices[index]?.deviceId ?? '';

  it('in a preview of all accessible organizations, counted before it is cut, by name', async () => {
    const preview = await send('POST', '/filters/preview', { conditions: LINUX, limit: 2 });
    expect(preview.status).to.equal(200);
    const { totalCount, devices: shown, evaluatedAt } = preview.body.data;
    expect(totalCount).to.equal(3);
    expect(Date.parse(evaluatedAt)).to.be.closeTo(Date.now(), 60_000);
    expect(shown).to.deep.equal([
      {
        id: idOf(1),
        hostname: 'HOST-b',
        displayName: null,
        osType: 'linux',
        status: 'offline',
        lastSeenAt: null,
      },
      {
        id: idOf(2),
        hostname: 'HOST-c',
        displayName: null,
        osType: 'linux',
        status: 'offline',
        lastSeenAt: null,
      },
    ]);
    const byTechnician = await send(
      'POST',
      '/filters/preview',
      { conditions: LINUX },
      ground.tenant.technician,
    );
    expect(byTechnician.body.data.totalCount).to.equal(2);
    await owner(
      `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at) values ($1, $2, 1, 'n', 'connected', now(), 'connected', '2026-01-31T08:00:00.123Z')`,
      [idOf(0), ground.tenant.orgId],
    );
    const seen = await send('POST', '/filters/preview', {
      conditions: all(of('status', 'equals', 'online')),
    });
    expect(seen.body.data.devices).to.deep.equal([
      {
        id: idOf(0),
        hostname: 'HOST-d',
        displayName: null,
        osType: 'linux',
        status: 'online',
        lastSeenAt: '2026-01-31T08:00:00.123Z',
      },
    ]);
    const none = await send('POST', '/filters/preview', {
      conditions: all(of('hostname', 'equals', 'none')),
    });
    expect(none.body.data).to.deep.include({ totalCount: 0, devices: [] });
    const entries = await trailOf('filter.preview', null);
    expect(entries).to.have.length(3);
    expect(entries[0]).to.deep.include({ details: { conditions: 1, totalCount: 3 } });
    const within = (place: object) => send('POST', '/filters/preview', { conditions: LINUX, ...place });
    expect((await within({ orgId: ground.tenant.orgId })).body.data.totalCount).to.equal(2);
    expect((await within({ siteId: newId() })).body.data.totalCount).to.equal(0);
    expect((await within({ orgId: ground.stranger.orgId })).status).to.equal(403);
  });

  it('in a preview of a saved filter, with a limit in the address', async () => {
    const { id } = (await create()).body;
    const preview = await send('POST', `/filters/${id}/preview?limit=1`);
    expect(preview.body.data.totalCount).to.equal(3);
    expect(preview.body.data.devices).to.have.length(1);
    expect(await trailOf('filter.saved.preview')).to.deep.equal([
      { resource_id: id, resource_name: 'Linux', details: { totalCount: 3 } },
    ]);
    for (const limit of ['0', '101', '-1', '1.5', 'x']) {
      const refused = await send('POST', `/filters/${id}/preview?limit=${limit}`);
      expect([refused.status, pathsOf(refused)[0]], limit).to.deep.equal([400, 'query.limit']);
    }
    for (const limit of [0, 101, '5', 1.5]) {
      expect(pathsOf(await send('POST', '/filters/preview', { conditions: LINUX, limit }))).to.deep.equal([
        'body.limit',
      ]);
    }
  });

  it('without those that are out of service', async () => {
    await send('DELETE', `/devices/${idOf(0)}`);
    expect((await send('POST', '/filters/preview', { conditions: LINUX })).body.data.totalCount).to.equal(2);
  });

  it('in the list of devices, beside its other filters, counted and in its order', async () => {
    const { id } = (await create()).body;
    const { body } = await send('GET', `/devices?filterId=${id}&sort=hostname&order=desc&limit=2`);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 2, total: 3 });
    expect(body.data.map((device: { hostname: string }) => device.hostname)).to.deep.equal([
      'HOST-d',
      'HOST-c',
    ]);
    const narrower = await send('GET', `/devices?filterId=${id}&orgId=${ground.tenant.orgId}&search=host-c`);
    expect(narrower.body.pagination.total).to.equal(1);
    const group = (
      await send('POST', '/groups', { orgId: ground.tenant.orgId, name: newId(), deviceIds: [idOf(0)] })
    ).body.id;
    expect((await send('GET', `/groups/${group}/devices?filterId=${id}`)).body.pagination.total).to.equal(1);
  });

  it('explain what each condition made of a device', async () => {
    await owner(
      `update devices set tags = '{Till}', custom_fields = '{"__proto__": "x", "rack": "R1"}', hardware = '{"cpuCores": 4}' where id = $1`,
      [idOf(0)],
    );
    const conditions = all(
      of('osType', 'equals', 'linux'),
      {
        operator: 'OR',
        conditions: [
          of('tags', 'contains', 'till'),
          of('lastSeenAt', 'notWithinLast', { amount: 1, unit: 'days' }),
        ],
      },
      of('hardware.cpuCores', 'greaterThan', 8),
      of('custom.rack', 'startsWith', 'r'),
      of('custom.__proto__', 'equals', 'x'),
      of('custom.constructor', 'isNull'),
      of('metrics.cpuPercent', 'isNull'),
    );
    const { status, body } = await send('POST', '/filters/explain', { conditions, deviceId: idOf(0) });
    expect(status).to.equal(200);
    expect(body.data).to.deep.include({ deviceId: idOf(0), matched: false });
    const seen = body.data.conditions.map((one: Record<string, unknown>) => [
      one['path'],
      one['matched'],
      one['value'],
    ]);
    expect(seen).to.deep.equal([
      ['conditions.conditions.0', true, 'linux'],
      ['conditions.conditions.1.conditions.0', true, ['Till']],
      ['conditions.conditions.1.conditions.1', true, null],
      ['conditions.conditions.2', false, 4],
      ['conditions.conditions.3', true, 'R1'],
      ['conditions.conditions.4', true, 'x'],
      ['conditions.conditions.5', true, null],
      ['conditions.conditions.6', true, null],
    ]);
    expect(body.data.conditions[0]).to.deep.include({ field: 'osType', operator: 'equals' });
    const { id } = (await create()).body;
    expect(
      (await send('POST', '/filters/explain', { filterId: id, deviceId: idOf(0) })).body.data.matched,
    ).to.equal(true);
    for (const what of [{}, { filterId: id, conditions }]) {
      expect(pathsOf(await send('POST', '/filters/explain', { ...what, deviceId: idOf(0) }))).to.deep.equal([
        'body.filterId',
      ]);
    }
    expect((await send('POST', '/filters/explain', { filterId: id, deviceId: newId() })).status).to.equal(
      404,
    );
  });

  it('for scripts, each device refused by itself, and no more than can be started at once', async () => {
    const { id } = (await create()).body;
    const script = (await send('POST', '/scripts', { name: 'S', language: 'bash', content: 'true' })).body.id;
    const execute = (body: object) => send('POST', `/scripts/${script}/execute`, body);
    // They have said what they can do: of others nobody knows, and they are waited for.
    await owner(`update devices set capabilities = '{agent.reboot}'`);
    expect((await execute({ filterId: id })).status).to.equal(409);
    await owner(`update devices set capabilities = '{script.run}' where id = any($1)`, [[idOf(0), idOf(1)]]);
    const { status, body } = await execute({ filterId: id });
    expect(status).to.equal(202);
    expect(body.commands.map((one: { deviceId: string }) => one.deviceId)).to.have.members([
      idOf(0),
      idOf(1),
    ]);
    expect(
      body.refused.map((one: { deviceId: string; code: string }) => [one.deviceId, one.code]),
    ).to.deep.equal([[idOf(2), 'CAPABILITY_MISSING']]);
    for (const both of [{}, { filterId: id, deviceIds: [idOf(0)] }]) {
      expect(pathsOf(await execute(both))).to.deep.equal(['body.filterId']);
    }
    const none = (await create({ conditions: all(of('hostname', 'equals', 'none')) })).body.id;
    expect((await execute({ filterId: none })).body.error).to.equal('The filter matches no device.');
    await owner(
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'h' || n, 'linux', '1', 'x64', '1', now() from generate_series(1, 500) n`,
      [ground.tenant.orgId, ground.tenant.siteId],
    );
    expect((await execute({ filterId: id })).body.details).to.deep.equal([
      { path: 'body.filterId', message: 'finds more than 500 devices' },
    ]);
  });
});
