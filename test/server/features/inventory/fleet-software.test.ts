import { expect } from 'chai';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the software of a fleet', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let sibling: string;
  let devices: EnrolledDevice[];

  const LISTS = [
    ['Firefox 139', 'Firefox 140', 'Zoom 6', 'alpha 1'],
    ['Firefox 140', 'Zoom 5'],
    ['Firefox 140', 'Beta 100%'],
    ['Firefox 128', 'Gone 1'],
  ];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    sibling = await buildOrganization(app, tenant.partnerId);
    devices = [];
    for (const [place, list] of LISTS.entries()) {
      const device = await buildDevice(app, place === 2 ? sibling : tenant.orgId);
      devices.push(device);
      const software = list.map((entry) => {
        const [name, version] = entry.split(' ');
        return { name, version };
      });
      await app.call('POST', `/agents/${device.deviceId}/inventory`, {
        token: device.token,
        body: { software, collectedAt: '2026-03-01T08:00:00Z' },
      });
    }
    await app.call('DELETE', `/devices/${devices[3]!.deviceId}`, { token: tenant.admin.token });
  });
  after(async () => app.close());

  const list = (query = '', token = tenant.admin.token) => app.call('GET', `/software${query}`, { token });
  /** When the test has run is none of its results. */
  const withoutTimes = (titles: { versions: { firstSeenAt?: string }[] }[]) =>
    titles.map(({ versions, ...title }) => ({
      ...title,
      versions: versions.map(({ firstSeenAt: _at, ...version }) => version),
    }));
  const names = async (query = '', token = tenant.admin.token) =>
    (await list(query, token)).body.data.map(
      ({ name, deviceCount }: { name: string; deviceCount: number }) => `${name} ${deviceCount}`,
    );

  it('is one list over all organizations, each device counted once, without decommissioned ones', async () => {
    const { status, body } = await list();
    expect(status).to.equal(200);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 50, total: 5 });
    expect(withoutTimes(body.data)).to.deep.equal([
      { name: 'alpha', deviceCount: 1, versionCount: 1, versions: [{ version: '1', deviceCount: 1 }] },
      { name: 'Beta', deviceCount: 1, versionCount: 1, versions: [{ version: '100%', deviceCount: 1 }] },
      {
        name: 'Firefox',
        deviceCount: 3,
        versionCount: 2,
        versions: [
          { version: '140', deviceCount: 3 },
          { version: '139', deviceCount: 1 },
        ],
      },
      { name: 'Gone', deviceCount: 0, versionCount: 0, versions: [] },
      {
        name: 'Zoom',
        deviceCount: 2,
        versionCount: 2,
        versions: [
          { version: '6', deviceCount: 1 },
          { version: '5', deviceCount: 1 },
        ],
      },
    ]);
  });

  it('says who has which version of a title, and since when', async () => {
    const { token } = tenant.admin;
    const path = '/software/installations?name=Firefox';
    const read = async (query = '', person = token) =>
      (await app.call('GET', `${path}${query}`, { token: person })).body;
    const all = await read();
    expect(all.pagination.total).to.equal(4);
    expect(new Set(all.data.map(({ deviceId }: { deviceId: string }) => deviceId))).to.deep.equal(
      new Set(devices.slice(0, 3).map(({ deviceId }) => deviceId)),
    );
    for (const { firstSeenAt } of all.data) {
      expect(Date.now() - Date.parse(firstSeenAt)).to.be.within(0, 60_000);
    }
    expect((await read('&version=139')).data).to.have.length(1);
    expect((await read(`&orgId=${sibling}`)).data).to.have.length(1);
    expect((await read('&limit=3&page=2')).data).to.have.length(1);
    expect((await read('', tenant.technician.token)).pagination.total).to.equal(3);
    expect((await read('', (await buildTenant(app)).admin.token)).data).to.deep.equal([]);

    // What was there before this was recorded has no time, and a report of the same leaves the time as it is.
    await asOwner(
      app.database.ownerUrl,
      `update device_software set first_seen_at = case when version = '140' then null else '2026-01-01T00:00:00Z'::timestamptz end
      where device_id = $1`,
      [devices[0]!.deviceId],
    );
    await app.call('POST', `/agents/${devices[0]!.deviceId}/inventory`, {
      token: devices[0]!.token,
      body: {
        software: [
          { name: 'Firefox', version: '139', publisher: 'Mozilla' },
          { name: 'Firefox', version: '140' },
          { name: 'Zoom', version: '6' },
          { name: 'alpha', version: '1' },
        ],
        collectedAt: '2026-03-02T08:00:00Z',
      },
    });
    expect((await read('&version=139')).data[0]).to.include({
      firstSeenAt: '2026-01-01T00:00:00.000Z',
      publisher: 'Mozilla',
    });
    const [firefox] = (await list('?search=firefox')).body.data;
    expect(firefox.versions).to.deep.equal([
      { version: '140', deviceCount: 3, firstSeenAt: null },
      { version: '139', deviceCount: 1, firstSeenAt: '2026-01-01T00:00:00.000Z' },
    ]);
  });

  it('is searched and read by the page, with a total that does not depend on it', async () => {
    expect(await names('?search=O')).to.deep.equal(['Firefox 3', 'Gone 0', 'Zoom 2']);
    expect(await names('?search=%25')).to.deep.equal([]);
    expect(await names('?limit=2&page=2')).to.deep.equal(['Firefox 3', 'Gone 0']);
    const beyond = (await list('?limit=2&page=9')).body;
    expect(beyond).to.deep.equal({ data: [], pagination: { page: 9, limit: 2, total: 5 } });
  });

  it('is that of the organizations one can see', async () => {
    expect(await names(`?orgId=${sibling}`)).to.deep.equal(['Beta 1', 'Firefox 1']);
    expect(await names('', tenant.technician.token)).to.deep.equal([
      'alpha 1',
      'Firefox 2',
      'Gone 0',
      'Zoom 2',
    ]);
    const refused = await list(`?orgId=${sibling}`, tenant.technician.token);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'FORBIDDEN']);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [sibling],
    });
    expect(await names('', selected.token)).to.deep.equal(['Beta 1', 'Firefox 1']);
    const system = await buildPerson(app, { scope: 'system' });
    expect(await names('?search=beta', system.token)).to.deep.equal(['Beta 1']);
    expect(await names('', (await buildTenant(app)).admin.token)).to.deep.equal([]);
  });
});
