import { expect } from 'chai';
import { DeviceQuery } from '../../../../src/features/devices/index.ts';
import { buildDevice, buildOrganization, buildSite, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, type Tenant } from './devices-support.ts';

interface Listed {
  id: string;
  hostname: string;
}

/** Devices of which some have a value in each column, some share it, and some have none. */
const MACHINES = [
  {
    hostname: 'b',
    display_name: null,
    agent_version: '1.10.0',
    os_type: 'linux',
    architecture: 'x64',
    os_version: 'Debian 12',
    cpu: 5,
  },
  {
    hostname: 'A',
    display_name: 'zeta',
    agent_version: '1.9.0',
    os_type: 'windows',
    architecture: 'arm64',
    os_version: '11',
    cpu: null,
  },
  {
    hostname: 'c',
    display_name: 'Alpha',
    agent_version: '1.10.0',
    os_type: 'linux',
    architecture: 'x64',
    os_version: 'debian 11',
    cpu: 95,
  },
  {
    hostname: 'd',
    display_name: null,
    agent_version: 'v2.0.0-beta',
    os_type: 'macos',
    architecture: 'x86',
    os_version: '15',
    cpu: null,
  },
  {
    hostname: 'e',
    display_name: 'beta',
    agent_version: '1.9',
    os_type: 'linux',
    architecture: 'x64',
    os_version: 'Debian 12',
    cpu: 5,
  },
];

describe('the list of devices', () => {
  let app: TestApp;
  let tenant: Tenant;
  const { send, sql } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const list = async (query: string): Promise<Listed[]> => {
    const { status, body } = await send('GET', `/devices?${query}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.data;
  };
  const names = async (query: string) => (await list(query)).map(({ hostname }) => hostname).join('');

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    for (const { cpu, ...machine } of MACHINES) {
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const columns = Object.entries(machine);
      await sql(`update devices set ${columns.map(([name]) => `${name} = ?`).join(', ')} where id = ?`, [
        ...columns.map(([, value]) => value),
        deviceId,
      ]);
      if (cpu === null) continue;
      await sql(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, cpu_percent,
          ram_percent, disk_percent)
        values (?, ?, 1, 'n', 'disconnected', now(), 'socket_closed', now() - make_interval(mins => ?), ?, ?, ?)`,
        [deviceId, tenant.orgId, cpu, cpu, cpu, cpu],
      );
    }
  });
  after(async () => app.close());

  const SORTS = DeviceQuery.shape.sort.unwrap().options;

  it('has a stable order by each of its sorts, both ways, those without a value last', async () => {
    for (const sort of SORTS) {
      const rising = await list(`sort=${sort}`);
      const falling = await list(`sort=${sort}&order=desc`);
      expect(
        rising.map(({ id }) => id),
        sort,
      ).to.have.members(falling.map(({ id }) => id));
      const pages: string[] = [];
      for (let page = 1; page <= 5; page++) {
        pages.push((await list(`sort=${sort}&limit=1&page=${page}`))[0]!.id);
      }
      expect(pages, sort).to.deep.equal(rising.map(({ id }) => id));
    }
    expect(await names('sort=hostname')).to.equal('Abcde');
    expect(await names('sort=hostname&order=desc')).to.equal('edcbA');
    expect(await names('sort=displayName')).to.equal('ceAbd');
    expect(await names('sort=displayName&order=desc')).to.equal('Aecbd');
    for (const sort of ['cpuPercent', 'ramPercent', 'diskPercent']) {
      expect(await names(`sort=${sort}`), sort).to.equal('becAd');
      expect(await names(`sort=${sort}&order=desc`), sort).to.equal('cbeAd');
    }
    expect(await names('sort=lastSeenAt&order=desc')).to.equal('ebcAd');
    // By its numbers; 1.9 is before 1.9.0.
    expect((await names('sort=agentVersion')).slice(0, 4)).to.equal('eAbc');
    expect(await names('sort=osVersion')).to.equal('Adcbe');
    expect(await names('sort=architecture')).to.equal('Abced');
    expect((await send('GET', '/devices?sort=nonsense')).status).to.equal(400);
  });

  it('finds any part of either name, in any case, and nothing that reaches from one to the other', async () => {
    const { admin, orgId } = await buildTenant(app);
    const named = async (hostname: string, displayName: string | null) => {
      const { deviceId } = await buildDevice(app, orgId);
      await sql('update devices set hostname = ?, display_name = ? where id = ?', [
        hostname,
        displayName,
        deviceId,
      ]);
      return deviceId;
    };
    const till = await named('TILL-07', 'Älteste İnsel Σ');
    const odd = await named(String.raw`a%b_c\d`, null);
    await named('aXbYcZd', 'till');
    const between = await named('left\u001fright', 'inner');
    const search = async (needle: string, more = '') => {
      const path = `/devices?search=${encodeURIComponent(needle)}${more}`;
      const { body } = await send('GET', path, undefined, admin);
      return (body.data as Listed[]).map(({ id }) => id);
    };
    for (const needle of ['till-0', 'TILL-07', 'ÄLTESTE', 'älteste İNSEL', 'insel σ', '-']) {
      expect(await search(needle), needle).to.deep.equal([till]);
    }
    for (const needle of ['%', '_', String.raw`\ `.trim(), 'A%B_C']) {
      expect(await search(needle), needle).to.deep.equal([odd]);
    }
    expect(await search('LEFT\u001fr')).to.deep.equal([between]);
    for (const needle of ['07älteste', '07\u001fä', '\u001fä', 'right\u001finner', "'"]) {
      expect(await search(needle), needle).to.deep.equal([]);
    }
    expect((await send('DELETE', `/devices/${till}`, undefined, admin)).status).to.equal(200);
    expect(await search('ÄLT')).to.deep.equal([]);
    expect(await search('ÄLT', '&status=decommissioned')).to.deep.equal([till]);
  });

  it('finds devices by tags, all of which they have', async () => {
    const [a, b, c] = await list('');
    const tag = (device: Listed | undefined, tags: string[]) =>
      send('PATCH', `/devices/${device?.id}`, { tags });
    await tag(a, ['front', 'till']);
    await tag(b, ['front', `it's "odd" {}\\`]);
    await tag(c, ['Front']);
    expect(await names('tags=front')).to.equal('Ab');
    expect(await names('tags=front,till')).to.equal('A');
    expect(await names('tags=%20front%20,till')).to.equal('A');
    expect(await names(`tags=${encodeURIComponent(`it's "odd" {}\\`)}`)).to.equal('b');
    expect(await names('tags=fron')).to.equal('');
    expect((await send('GET', '/devices?tags=')).body.details[0].path).to.equal('query.tags.0');
    expect(
      (await send('GET', '/devices?tags=front&osType=linux&search=b&sort=agentVersion')).body.pagination,
    ).to.deep.include({ total: 1 });
  });

  it('narrows by organization, site and what else is asked, all at once', async () => {
    const other = await buildTenant(app);
    const second = await buildOrganization(app, tenant.partnerId);
    const site = await buildSite(app, second);
    const { deviceId } = await buildDevice(app, second);
    const ids = async (query: string) => (await list(query)).map(({ id }) => id);
    expect(await ids(`orgId=${second}`)).to.deep.equal([deviceId]);
    expect(await ids(`orgId=${second}&siteId=${site}`)).to.deep.equal([deviceId]);
    expect(await ids(`siteId=${site}`)).to.deep.equal([deviceId]);
    // A site of one organization and the devices of another have nothing in common.
    expect(await ids(`orgId=${tenant.orgId}&siteId=${site}`)).to.deep.equal([]);
    expect(await ids(`siteId=${other.siteId}`)).to.deep.equal([]);
    expect((await send('GET', `/devices?orgId=${other.orgId}`)).status).to.equal(403);
    expect(await ids(`orgId=${second}&status=offline&osType=linux`)).to.deep.equal([deviceId]);
    expect(await ids(`orgId=${second}&status=online`)).to.deep.equal([]);
  });
});
