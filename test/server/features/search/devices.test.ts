import { expect } from 'chai';
import { FillDeviceSearch } from '../../../../src/features/devices/device-search.work.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

interface Facts {
  lastUser?: string;
  hardware?: object;
  network?: object;
  tags?: string[];
  interfaces?: object[];
}

describe('search for devices by what is known of them', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const owner = (sql: string, values: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
  async function device(hostname: string, facts: Facts = {}, orgId = tenant.orgId): Promise<string> {
    const { deviceId } = await buildDevice(app, orgId, { hostname });
    await owner(
      `update devices set last_user = $2, hardware = coalesce($3, hardware), network = coalesce($4, network),
        tags = $5 where id = $1`,
      [
        deviceId,
        facts.lastUser ?? null,
        facts.hardware === undefined ? null : JSON.stringify(facts.hardware),
        facts.network === undefined ? null : JSON.stringify(facts.network),
        facts.tags ?? [],
      ],
    );
    if (facts.interfaces !== undefined) {
      await owner(
        `insert into device_inventory (org_id, device_id, interfaces, collected_at) values ($1, $2, $3, now())`,
        [orgId, deviceId, JSON.stringify(facts.interfaces)],
      );
    }
    return deviceId;
  }
  async function find(q: string, as: Person = tenant.admin) {
    const answer = await app.call('GET', `/search?${new URLSearchParams({ q, limit: '50' }).toString()}`, {
      token: as.token,
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    return answer.body.results as { id: string; type: string; title: string; description?: string }[];
  }
  const shown = async (q: string, as?: Person) =>
    (await find(q, as)).map(({ title, description }) => `${title}: ${description}`);
  const titles = async (q: string, as?: Person) => (await find(q, as)).map(({ title }) => title);

  const known = () =>
    device('pc-1', {
      lastUser: String.raw`PORTO\maria`,
      hardware: { serialNumber: '5CG1234XYZ', model: 'Elite' },
      network: {
        ipAddress: '10.20.30.40',
        macAddress: 'aa:bb:cc:00:11:22',
        macAddresses: ['de:ad:be:ef:00:01'],
      },
      tags: ['Front Desk', 'till'],
      interfaces: [
        { name: 'eth0', macAddress: 'aa:bb:cc:00:11:22', ipAddresses: ['10.20.30.40', 'fd00::42'] },
        { name: 'wlan0', macAddress: '02:42:ac:11:00:02', ipAddresses: ['fe80::1', '172.17.0.9'] },
      ],
    });
  it('finds each kind of fact, and says which one matched', async () => {
    const id = await known();
    await device('pc-2');
    for (const [q, matched] of [
      [String.raw`porto\MARIA`, String.raw`Last user PORTO\maria`],
      ['maria', String.raw`Last user PORTO\maria`],
      ['5cg1234', 'Serial number 5CG1234XYZ'],
      ['4XYZ', 'Serial number 5CG1234XYZ'],
      ['front desk', 'Tag Front Desk'],
      ['TILL', 'Tag till'],
      ['desk', 'Tag Front Desk'],
    ]) {
      expect(await find(q ?? ''), q).to.deep.equal([
        { id, type: 'devices', title: 'pc-1', description: matched },
      ]);
    }
  });

  it('finds the addresses that a device reports, but none that every machine has', async () => {
    await known();
    await device('pc-2');
    for (const [q, matched] of [
      ['10.20.30.40', 'IP address 10.20.30.40'],
      ['20.30.', 'IP address 10.20.30.40'],
      ['FD00::42', 'IP address fd00::42'],
      ['fd00:0:0:0:0:0:0:42', 'IP address fd00::42'],
      ['172.17', 'IP address 172.17.0.9'],
    ]) {
      expect(await shown(q ?? ''), q).to.deep.equal([`pc-1: ${matched}`]);
    }
    for (const q of ['fe80::1', 'fe80']) expect(await titles(q), q).to.deep.equal([]);
  });

  it('finds a hardware address in every writing, and by its parts', async () => {
    await device('pc-1', { network: { macAddress: 'aa:bb:cc:00:11:22' } });
    await device('pc-2', { network: { macAddress: '0a:ab:bc:c0:01:12' } });
    for (const q of [
      'AA:BB:CC:00:11:22',
      'aa-bb-cc-00-11-22',
      'AABB.CC00.1122',
      'aabbcc001122',
      'aa:bb:cc',
      'AA-BB',
      'aabb.cc0',
      'cc-00-11',
      '00:11:22',
    ]) {
      expect(await shown(q), q).to.deep.equal(['pc-1: MAC address aa:bb:cc:00:11:22']);
    }
    expect(await titles('aa:bb:cc:00:11:23')).to.deep.equal([]);
    // Without separators, it may begin in the middle of a pair.
    expect(await titles('bbcc0011')).to.deep.equal(['pc-1', 'pc-2']);
  });

  it('finds devices by the whole address from which they connect', async () => {
    const id = await device('behind-nat');
    await owner(
      `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip)
      values ($1, $2, 1, 'n', 'disconnected', now(), 'socket_closed', now(), '203.0.113.77')
      on conflict (device_id) do update set last_ip = excluded.last_ip`,
      [id, tenant.orgId],
    );
    expect(await shown('203.0.113.77')).to.deep.equal(['behind-nat: IP address 203.0.113.77']);
    expect(await titles('203.0.113.7')).to.deep.equal([]);
  });

  it('follows what changes: facts, inventories, and whether the device is in service', async () => {
    const id = await device('pc-1', { lastUser: 'first.person', interfaces: [] });
    expect(await titles('first.person')).to.deep.equal(['pc-1']);
    await owner(`update devices set last_user = 'second.person', tags = '{blue}' where id = $1`, [id]);
    expect(await titles('first.person')).to.deep.equal([]);
    expect(await titles('second.person')).to.deep.equal(['pc-1']);
    await owner('update device_inventory set interfaces = $2 where device_id = $1', [
      id,
      JSON.stringify([{ name: 'eth0', ipAddresses: ['192.0.2.200'] }]),
    ]);
    expect(await shown('192.0.2.200')).to.deep.equal(['pc-1: IP address 192.0.2.200']);
    expect(await titles('second.person')).to.deep.equal(['pc-1']);
    const remove = await app.call('DELETE', `/devices/${id}`, { token: tenant.admin.token });
    expect(remove.status).to.equal(200);
    expect(await titles('second.person')).to.deep.equal([]);
    expect(await owner('select from device_search_facts where device_id = $1', [id])).to.have.length(0);
    await app.call('POST', `/devices/${id}/restore`, { token: tenant.admin.token });
    expect(await titles('second.person')).to.deep.equal(['pc-1']);
  });

  it('finds devices that were enrolled before facts were stored once they are filled in, and only then', async () => {
    const [old, gone, fresh] = [
      await device('pc-old', {
        lastUser: 'needle',
        interfaces: [{ name: 'eth0', ipAddresses: ['192.0.2.201'] }],
      }),
      await device('pc-gone', { lastUser: 'needle' }),
      await device('pc-new', { lastUser: 'needle' }),
    ];
    await app.call('DELETE', `/devices/${gone}`, { token: tenant.admin.token });
    await owner('delete from device_search_facts where device_id = $1', [old]);
    expect(await titles('needle')).to.deep.equal(['pc-new']);
    const fill = new FillDeviceSearch({ db: app.server.database.pool, log: quietLog });
    fill.start();
    await fill.settle();
    await fill.close();
    expect(await titles('needle')).to.deep.equal(['pc-new', 'pc-old']);
    expect(await titles('192.0.2.201')).to.deep.equal(['pc-old']);
    const stored = await owner('select device_id from device_search_facts where org_id = $1', [tenant.orgId]);
    expect(stored.map((row) => row['device_id'])).to.have.members([old, fresh]);
  });

  it('ranks whole facts, beginnings, words and parts, names before other facts, tags as words', async () => {
    await device('pc-part', { lastUser: 'xneedle' });
    await device('pc-word', { lastUser: String.raw`A\needle` });
    await device('pc-start', { lastUser: 'needles' });
    await device('pc-whole', { lastUser: 'NEEDLE' });
    await device('pc-tag', { tags: ['needle'] });
    await device('needle-1');
    expect(await titles('needle')).to.deep.equal([
      'pc-whole',
      'needle-1',
      'pc-start',
      'pc-tag',
      'pc-word',
      'pc-part',
    ]);
    await device('needle');
    expect((await titles('needle')).slice(0, 2)).to.deep.equal(['needle', 'pc-whole']);
  });

  it('shows what was active lately before others that match as well', async () => {
    const seen = async (hostname: string, state: string, ago: string) => {
      const id = await device(hostname);
      await owner(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
        values ($1, $2, 1, 'n', $3, now(), 'connected', now() - $4::interval)
        on conflict (device_id) do update set state = excluded.state, last_seen_at = excluded.last_seen_at`,
        [id, tenant.orgId, state, ago],
      );
    };
    await seen('front-1', 'disconnected', '40 days');
    await seen('front-2', 'disconnected', '3 days');
    await seen('front-4', 'connected', '20 seconds');
    await seen('front-3', 'connected', '1 second');
    await device('front-0');
    expect(await titles('front')).to.deep.equal(['front-3', 'front-4', 'front-2', 'front-1', 'front-0']);
  });

  it('shows a device once, and why: by its name if that matches as well', async () => {
    await device('maria-pc', { lastUser: 'maria.lopez', tags: ['maria'] });
    expect(await shown('maria')).to.deep.equal(['maria-pc: Debian 12']);
  });

  it('shows nothing of other tenants, of other organizations, or without the permission', async () => {
    const stranger = await buildTenant(app);
    const sibling = await buildOrganization(app, tenant.partnerId);
    await device('mine', { lastUser: 'needle', network: { ipAddress: '198.51.100.7' } });
    await device('siblings', { lastUser: 'needle', network: { ipAddress: '198.51.100.7' } }, sibling);
    await device('strangers', { lastUser: 'needle', network: { ipAddress: '198.51.100.7' } }, stranger.orgId);
    await owner(
      `update device_presence set last_ip = '198.51.100.99' where device_id in
        (select id from devices where hostname in ('mine', 'siblings', 'strangers'))`,
      [],
    );
    for (const q of ['needle', '198.51.100.7', '198.51.100']) {
      expect((await titles(q)).sort(), q).to.deep.equal(['mine', 'siblings']);
      expect(await titles(q, tenant.technician), q).to.deep.equal(['mine']);
      expect(await titles(q, stranger.admin), q).to.deep.equal(['strangers']);
    }
    const role = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'No devices', scope: 'partner', permissions: ['scripts:read'] },
    });
    const reader = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: role.body.id,
    });
    for (const q of ['needle', '198.51.100.7', '198.51.100.99', 'mine']) {
      expect(await titles(q, reader), q).to.deep.equal([]);
    }
    // An organization that is not the person's any more takes its devices along.
    const part = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [sibling],
    });
    expect(await titles('needle', part)).to.deep.equal(['siblings']);
    await owner(`update partner_users set org_ids = '{}' where user_id = $1`, [part.id]);
    expect(await titles('needle', part)).to.deep.equal([]);
  });

  it('takes odd texts as they are', async () => {
    await device('pc-1', { lastUser: String.raw`a%b_c\d` });
    await device('pc-2', { lastUser: 'aXbYcZd', tags: ['😀 team'] });
    for (const q of ['a%b', 'b_c', String.raw`c\d`, String.raw`\d`]) {
      expect(await titles(q), q).to.deep.equal(['pc-1']);
    }
    expect(await shown('😀')).to.deep.equal(['pc-2: Tag 😀 team']);
    expect(await shown('😀 te')).to.deep.equal(['pc-2: Tag 😀 team']);
    for (const q of [
      '%%',
      '__',
      '\u001f',
      '\u001f\u001f',
      ':',
      '..',
      '::',
      'x'.repeat(100),
      `'"`,
      '0'.repeat(100),
    ]) {
      expect(await titles(q), q).to.deep.equal([]);
    }
    // A single character is looked for in names only: it is in the address of every device.
    expect((await find('X')).filter(({ type }) => type === 'devices')).to.deep.equal([]);
  });

  it('stores the facts of a device however much it reports', async () => {
    const id = await device('huge', {
      lastUser: '𐍈'.repeat(255),
      hardware: { serialNumber: '𐍈'.repeat(255) },
      tags: Array.from({ length: 50 }, (_tag, place) => `${'𐍈'.repeat(60)}${place}`),
      interfaces: Array.from({ length: 256 }, (_interface, place) => ({
        name: `if${place}`,
        macAddress: `02:00:00:00:${(place >> 4).toString(16).padStart(2, '0')}:${(place % 16).toString(16).padStart(2, '0')}`,
        ipAddresses: Array.from(
          { length: 16 },
          (_address, n) => `2001:db8:aaaa:bbbb:cccc:dddd:${n.toString(16)}:${place.toString(16)}`,
        ),
      })),
    });
    const [row] = await owner(
      'select octet_length(facts) as bytes from device_search_facts where device_id = $1',
      [id],
    );
    expect(row?.['bytes']).to.be.within(1, 2400);
    expect(await titles('huge')).to.deep.equal(['huge']);
    expect(await titles('𐍈𐍈')).to.deep.equal(['huge']);
    // What is not of the form that the server stores is no reason to fail either.
    await owner(
      `update devices set network = '[1, {"macAddresses": "x"}]', hardware = '"text"' where id = $1`,
      [id],
    );
    await owner(`update device_inventory set interfaces = '{"a": [null]}' where device_id = $1`, [id]);
    expect(await titles('huge')).to.deep.equal(['huge']);
  });
});
