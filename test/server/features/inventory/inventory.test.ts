import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildSite, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

type Json = Record<string, unknown>;

const COLLECTED = '2026-03-01T08:00:00.000Z';
const NOTHING = {
  hardware: 0,
  network: 0,
  interfaces: 0,
  lastUser: 0,
  installed: 0,
  updated: 0,
  removed: 0,
  corrected: 0,
};

/** When software was first seen is the time of the test. */
const withoutTimes = (answer: unknown): unknown =>
  JSON.parse(JSON.stringify(answer, (key, value: unknown) => (key === 'firstSeenAt' ? undefined : value)));

describe('inventory', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const tell = (inventory: Json, { deviceId, token } = device) =>
    app.call('POST', `/agents/${deviceId}/inventory`, {
      token,
      body: { collectedAt: COLLECTED, ...inventory },
    });
  const get = (path: string, { id = device.deviceId, token = tenant.admin.token } = {}) =>
    app.call('GET', `/devices/${id}${path}`, { token });
  const software = async (query = '') =>
    ((await get(`/software${query}`)).body.data as { name: string; version: string | null }[]).map(
      ({ name, version }) => `${name} ${version ?? '-'}`,
    );
  const sql = (text: string, values: string[] = []) =>
    withSystem(app.server.database.pool, 'test', async (tx) => (await tx.raw(text, values)).rows as Json[]);
  /** Where every row that an inventory may write was last written. */
  const writes = async () =>
    JSON.stringify(
      await sql(
        `select 'd' as what, xmin::text, ctid::text from devices where id = ?
        union all select 's', xmin::text, ctid::text from device_software where device_id = ?
        union all select 't', xmin::text, ctid::text from software_titles
        union all select 'c', xmin::text, ctid::text from software_changes where device_id = ? order by 1, 3`,
        [device.deviceId, device.deviceId, device.deviceId],
      ),
    );

  describe('that an agent tells', () => {
    const hardware = { manufacturer: 'Dell Inc.', model: 'OptiPlex 7010', cpuCores: 6, ramTotalMb: 16_384 };
    const network = { ipAddress: '10.0.0.7', macAddress: '02:00:00:00:00:01' };
    const interfaces = [
      {
        name: 'eth0',
        macAddress: '02:00:00:00:00:01',
        ipAddresses: ['10.0.0.7', 'fe80::1'],
        isPrimary: true,
      },
      { name: 'wlan0', ipAddresses: [], isPrimary: false },
    ];

    it('keeps what an earlier one had from a source that fails, and names the source', async () => {
      const entry = (name: string, source?: string, version = '1') => ({ name, version, source });
      await tell({
        hardware,
        software: [entry('bash', 'dpkg'), entry('vim', 'dpkg'), entry('firefox', 'snap'), entry('old')],
      });
      const failed = [{ source: 'snap', message: 'error: cannot list snaps' }];
      const { body } = await tell({
        hardware: { cpuCores: 8 },
        software: [entry('bash', 'dpkg', '2')],
        failed,
      });
      expect(body.changed).to.deep.include({ updated: 1, removed: 1 });
      expect(await software()).to.deep.equal(['bash 2', 'firefox 1', 'old 1']);
      const shown = (await get('/inventory')).body;
      expect(shown.failedSources).to.deep.equal(failed);
      expect(shown.hardware).to.deep.equal({ ...hardware, cpuCores: 8 });

      await tell({ hardware, software: [entry('bash', 'dpkg', '2')] });
      expect(await software()).to.deep.equal(['bash 2']);
      expect((await get('/inventory')).body.failedSources).to.deep.equal([]);
      const odd = await tell({ failed: [{ source: 'x'.repeat(500), message: 'y'.repeat(5000) }] });
      expect(odd.status).to.equal(200);
    });

    it('shows with the device', async () => {
      const { status, body } = await tell({
        hardware,
        network,
        interfaces,
        lastUser: 'ACME\\anna',
        software: [{ name: 'Firefox', version: '140.0' }],
        collectedAt: '2026-03-01T10:00:00.5+02:00',
      });
      expect([status, body]).to.deep.equal([
        200,
        {
          ok: true,
          changed: { ...NOTHING, hardware: 1, network: 1, interfaces: 1, lastUser: 1, installed: 1 },
        },
      ]);
      expect((await get('')).body).to.deep.include({ hardware, network });
      const shown = (await get('/inventory')).body;
      expect(shown).to.deep.include({
        deviceId: device.deviceId,
        orgId: tenant.orgId,
        hardware,
        network,
        interfaces,
        lastUser: 'ACME\\anna',
        softwareCount: 1,
        collectedAt: '2026-03-01T08:00:00.500Z',
      });
      expect(Date.now() - Date.parse(shown.receivedAt)).to.be.within(-1000, 30_000);
    });

    it('is not known of a device that never told', async () => {
      expect((await get('/inventory')).body).to.deep.include({
        hardware: {},
        interfaces: [],
        lastUser: null,
        softwareCount: 0,
        collectedAt: null,
        receivedAt: null,
      });
      expect((await get('/software')).body.data).to.deep.equal([]);
    });

    it('replaces each part that is told, and leaves the others as they were', async () => {
      await tell({ hardware, network, interfaces, lastUser: 'anna', software: [{ name: 'a' }] });
      const { body } = await tell({ hardware: { model: 'Other' }, collectedAt: '2026-03-02T08:00:00Z' });
      expect(body.changed).to.deep.equal({ ...NOTHING, hardware: 1 });
      expect((await get('/inventory')).body).to.deep.include({
        hardware: { model: 'Other' },
        network,
        interfaces,
        lastUser: 'anna',
        softwareCount: 1,
        collectedAt: '2026-03-02T08:00:00.000Z',
      });
      expect((await tell({ software: [], interfaces: [] })).body.changed).to.deep.equal({
        ...NOTHING,
        interfaces: 1,
        removed: 1,
      });
      expect((await get('/inventory')).body).to.deep.include({ interfaces: [], softwareCount: 0, network });
    });

    it('and that is what was known writes nothing but when it was collected', async () => {
      const all = {
        hardware,
        network,
        interfaces,
        lastUser: 'anna',
        software: [
          { name: 'a', version: '1', publisher: 'p', installedAt: '2026-01-01T00:00:00Z' },
          { name: 'b' },
        ],
      };
      await tell(all);
      const before = await writes();
      const { body } = await tell({
        ...all,
        software: all.software.toReversed(),
        collectedAt: '2026-03-05T00:00:00Z',
      });
      expect(body.changed).to.deep.equal(NOTHING);
      expect(await writes()).to.equal(before);
      expect((await get('/inventory')).body.collectedAt).to.equal('2026-03-05T00:00:00.000Z');
      // And the look at what was written would have seen it.
      await tell({ ...all, software: [{ name: 'a', version: '2' }, { name: 'b' }] });
      expect(await writes()).not.to.equal(before);
    });

    it('is sent to dashboards that follow devices once it is stored, and only if something has changed', async () => {
      const { hub } = app.server;
      const told: (readonly string[])[] = [];
      const devicesChanged = hub.devicesChanged.bind(hub);
      hub.devicesChanged = (ids) => {
        told.push(ids);
        devicesChanged(ids);
      };
      try {
        const list = { software: [{ name: 'a' }], lastUser: 'anna' };
        await tell(list);
        await tell({ ...list, collectedAt: '2026-03-02T08:00:00Z' });
        await tell({ ...list, interfaces: [{ name: '' }] });
        await tell({ ...list, hardware });
      } finally {
        hub.devicesChanged = devicesChanged;
      }
      expect(told).to.deep.equal([[device.deviceId], [device.deviceId]]);
    });

    it('is dated now by a clock that is ahead', async () => {
      await tell({ collectedAt: new Date(Date.now() + 3_600_000).toISOString() });
      const { collectedAt } = (await get('/inventory')).body;
      expect(Date.now() - Date.parse(collectedAt)).to.be.within(-1000, 30_000);
    });

    it('may have more in it than this release knows', async () => {
      const { status } = await tell({ batteries: [1], hardware: { ...hardware, tpm: '2.0' } });
      expect(status).to.equal(200);
      expect((await get('')).body.hardware).to.deep.equal(hardware);
    });
  });

  describe('of software', () => {
    it('is kept as it was told, and told what has become of it', async () => {
      const first = await tell({
        software: [
          {
            name: '  Mozilla Firefox ',
            version: '139.0',
            publisher: 'Mozilla',
            installedAt: '2026-01-02T03:04:05Z',
          },
          { name: 'ünï 😀 "\\%_', version: '1' },
          { name: '7-Zip', version: '' },
          { name: 'Old Tool', version: '0.1' },
        ],
      });
      expect(first.body.changed).to.deep.equal({ ...NOTHING, installed: 4 });
      expect(withoutTimes((await get('/software')).body)).to.deep.equal({
        data: [
          { name: '7-Zip', version: null, publisher: null, installedAt: null },
          {
            name: 'Mozilla Firefox',
            version: '139.0',
            publisher: 'Mozilla',
            installedAt: '2026-01-02T03:04:05.000Z',
          },
          { name: 'Old Tool', version: '0.1', publisher: null, installedAt: null },
          { name: 'ünï 😀 "\\%_', version: '1', publisher: null, installedAt: null },
        ],
        pagination: { page: 1, limit: 50, total: 4 },
      });
      expect((await get('/software/changes')).body.data, 'the first list is no news').to.deep.equal([]);

      const second = await tell({
        software: [
          { name: 'Mozilla Firefox', version: '140.0', publisher: 'Mozilla' },
          { name: 'ünï 😀 "\\%_', version: '1', publisher: 'somebody' },
          { name: '7-Zip' },
          { name: 'Zoom', version: '6' },
        ],
        collectedAt: '2026-03-02T08:00:00Z',
      });
      expect(second.body.changed).to.deep.equal({
        ...NOTHING,
        installed: 1,
        updated: 1,
        removed: 1,
        corrected: 1,
      });
      const at = '2026-03-02T08:00:00.000Z';
      expect((await get('/software/changes')).body).to.deep.equal({
        data: [
          { at, change: 'installed', name: 'Zoom', version: '6', previousVersion: null },
          { at, change: 'removed', name: 'Old Tool', version: null, previousVersion: '0.1' },
          { at, change: 'updated', name: 'Mozilla Firefox', version: '140.0', previousVersion: '139.0' },
        ],
        pagination: { page: 1, limit: 50, total: 3 },
      });
      const names = async (query: string) =>
        (await get(`/software/changes${query}`)).body.data.map(({ name }: { name: string }) => name);
      expect(await names('?change=removed,UPDATED')).to.deep.equal(['Old Tool', 'Mozilla Firefox']);
      expect(await names('?search=TOOL')).to.deep.equal(['Old Tool']);
      expect(await names('?page=2&limit=2')).to.deep.equal(['Mozilla Firefox']);
      expect((await get('/software/changes?change=vanished')).body.details[0].path).to.equal(
        'query.change.0',
      );
    });

    it('is found by a part of its name, wildcards taken as they are, a page at a time', async () => {
      await tell({ software: ['Alpha', 'alphabet', 'beta', '100%', 'a_b'].map((name) => ({ name })) });
      expect(await software('?search=ALPHA')).to.deep.equal(['Alpha -', 'alphabet -']);
      expect(await software('?search=%25')).to.deep.equal(['100% -']);
      expect(await software('?search=_')).to.deep.equal(['a_b -']);
      expect(await software('?page=2&limit=2')).to.deep.equal(['Alpha -', 'alphabet -']);
    });

    it('of one name in several versions keeps all of them, and what comes twice once', async () => {
      const java = (version: string, more: Json = {}) => ({ name: 'Java 8', version, ...more });
      const told = await tell({
        software: [
          java('8.0.411'),
          java('8.0.421'),
          java('8.0.411', { publisher: 'Oracle' }),
          { name: 'java 8' },
        ],
      });
      expect(told.body.changed.installed).to.equal(3);
      expect(await software()).to.deep.equal(['java 8 -', 'Java 8 8.0.411', 'Java 8 8.0.421']);
      expect((await get('/software?search=411')).body.data).to.deep.equal([]);
      expect((await get('/software')).body.data[1].publisher).to.equal('Oracle');
      expect((await get('/inventory')).body.softwareCount).to.equal(2);
      expect((await tell({ software: [java('8.0.421')] })).body.changed).to.include({
        removed: 2,
        installed: 0,
      });
      expect(await software()).to.deep.equal(['Java 8 8.0.421']);
    });

    it('goes up to 5,000 entries, and not to one more', async function () {
      const many = Array.from({ length: 5001 }, (_, i) => ({ name: `package-${i}`, version: `${i}.0-1` }));
      const over = await tell({ software: many });
      expect([over.status, over.body.details]).to.deep.equal([
        400,
        [{ path: 'body.software', message: 'must have at most 5000 entries' }],
      ]);
      const most = await tell({ software: many.slice(0, 5000) });
      expect([most.status, most.body.changed.installed]).to.deep.equal([200, 5000]);
      const sent = await sentStatements(['muster'], async () => {
        const other = await tell({ software: many.slice(1) });
        expect(other.body.changed).to.include({ installed: 1, removed: 1 });
      });
      expect(sent.length, 'however many entries there are').to.be.lessThan(100);
      expect((await get('/software?search=package-5000')).body.pagination.total).to.equal(1);
    });

    it('of which a thousand changes are kept, the newest', async () => {
      await tell({ software: [] });
      const batch = (from: number, count: number) =>
        Array.from({ length: count }, (_, i) => ({ name: `p${String(from + i).padStart(5, '0')}` }));
      await tell({ software: batch(0, 700) });
      expect((await get('/software/changes?limit=1')).body.pagination.total).to.equal(700);
      await tell({ software: batch(0, 1100) });
      const { body } = await get('/software/changes?limit=1');
      expect(body.pagination.total).to.equal(1000);
      expect(body.data[0].name).to.equal('p01099');
      expect((await get('/software/changes?search=p00099')).body.pagination.total).to.equal(0);
      expect((await get('/software/changes?search=p00100')).body.pagination.total).to.equal(1);
      await tell({ software: batch(5000, 3000) });
      expect((await get('/software/changes?limit=1')).body.pagination.total).to.equal(1000);
    });

    it('leaves no title behind that nothing is left of', async () => {
      const titles = async () =>
        (await sql('select name from software_titles where org_id = ? order by 1', [device.orgId])).map(
          ({ name }) => name,
        );
      const apart = await buildTenant(app);
      device = await buildDevice(app, apart.orgId);
      const other = await buildDevice(app, apart.orgId);
      await tell({
        software: [
          { name: 'mine' },
          { name: 'ours' },
          { name: 'twice', version: '1' },
          { name: 'twice', version: '2' },
        ],
      });
      await tell({ software: [{ name: 'ours' }] }, other);
      await tell({ software: [{ name: 'twice', version: '2' }, { name: 'new' }] });
      expect(await titles()).to.deep.equal(['new', 'ours', 'twice']);
      await tell({ software: [] }, other);
      await tell({ software: [] });
      expect(await titles()).to.deep.equal([]);
    });
  });

  describe('that comes several times at once', () => {
    it('of one device is stored whole, one after the other', async () => {
      const lists = Array.from({ length: 8 }, (_, i) =>
        Array.from({ length: 60 }, (_entry, j) => ({ name: `shared-${(j * 7 + i) % 80}`, version: `${i}` })),
      );
      const answers = await Promise.all(
        lists.map((list, i) =>
          tell({ software: list, hardware: { cpuCores: i + 1 }, lastUser: `user-${i}` }),
        ),
      );
      expect(answers.map(({ status }) => status)).to.deep.equal(answers.map(() => 200));
      const { hardware, lastUser } = (await get('/inventory')).body;
      const rows = await sql('select distinct version from device_software where device_id = ?', [
        device.deviceId,
      ]);
      expect(rows).to.deep.equal([{ version: String(hardware.cpuCores - 1) }]);
      expect(lastUser).to.equal(`user-${hardware.cpuCores - 1}`);
      expect((await get('/inventory')).body.softwareCount).to.equal(60);
    });

    it('of devices that share titles, which come and go, never fails', async function () {
      const devices = await Promise.all(Array.from({ length: 6 }, () => buildDevice(app, tenant.orgId)));
      const statuses: number[] = [];
      await Promise.all(
        devices.map(async (one, i) => {
          for (let round = 0; round < 12; round++) {
            const names = Array.from({ length: 40 }, (_, j) => `title-${(j * (i + 3) + round * 11) % 60}`);
            const list = round % 3 === 2 ? [] : [...new Set(names)].map((name) => ({ name }));
            statuses.push((await tell({ software: i % 2 === 0 ? list : list.reverse() }, one)).status);
          }
        }),
      );
      expect(statuses.filter((status) => status !== 200)).to.deep.equal([]);
      const left = await sql(
        `select name from software_titles t where name like 'title-%'
          and not exists (select from device_software s where s.title_id = t.id)`,
      );
      expect(left).to.deep.equal([]);
    });
  });

  it('has characters replaced that the database cannot store', async () => {
    await tell({ lastUser: 'x\0', software: [{ name: 'a\0', version: '\ud800' }] });
    expect((await get('/inventory')).body.lastUser).to.equal('x\ufffd');
    expect(await software()).to.deep.equal(['a\ufffd \ufffd']);
  });

  it('has what is too long cut, and marked', async () => {
    const long = 'x'.repeat(300);
    expect((await tell({ software: [{ name: long, version: long }] })).status).to.equal(200);
    const cut = `${'x'.repeat(254)}…`;
    expect(await software()).to.deep.equal([`${cut} ${cut}`]);
  });

  describe('is refused whole, naming what is wrong,', () => {
    const faults: Record<string, [Json, string, string]> = {
      'where software has no name': [
        { software: [{ name: 'a' }, { version: '1' }] },
        'software.1.name',
        'string',
      ],
      'where a name is blank': [{ software: [{ name: ' \t' }] }, 'software.0.name', 'blank'],
      'with a version that is a number': [
        { software: [{ name: 'a', version: 1 }] },
        'software.0.version',
        'string',
      ],
      'with a date that is none': [
        { software: [{ name: 'a', installedAt: '20260101' }] },
        'software.0.installedAt',
        'ISO 8601',
      ],
      'with a date of another age': [
        { software: [{ name: 'a', installedAt: '1601-01-01T00:00:00Z' }] },
        'software.0.installedAt',
        '1970',
      ],
      'with an address that is none': [
        { interfaces: [{ name: 'a', ipAddresses: ['10.0.0.1', '10.0.0'] }] },
        'interfaces.0.ipAddresses.1',
        'IPv4',
      ],
      'with two ways to the world': [
        { interfaces: [{ name: 'a', isPrimary: true }, { name: 'b' }, { name: 'c', isPrimary: true }] },
        'interfaces.2.isPrimary',
        'only one',
      ],
      'with too many interfaces': [
        { interfaces: Array.from({ length: 257 }, () => ({ name: 'x' })) },
        'interfaces',
        '256',
      ],
      'with fewer cores than one': [{ hardware: { cpuCores: 0 } }, 'hardware.cpuCores', '0'],
      'with a memory that is not finite': [
        { hardware: { ramTotalMb: '1e999' } },
        'hardware.ramTotalMb',
        'number',
      ],
      'without a time': [{ collectedAt: undefined }, 'collectedAt', 'ISO 8601'],
      'with a time far ahead': [{ collectedAt: '2100-01-01T00:00:00Z' }, 'collectedAt', 'day from now'],
    };
    for (const [what, [fault, field, rule]] of Object.entries(faults)) {
      it(what, async () => {
        const { status, body } = await tell({ lastUser: 'x', hardware: { model: 'x' }, ...fault });
        expect([status, body.code], JSON.stringify(body)).to.deep.equal([400, 'VALIDATION_FAILED']);
        const issue = body.details.find(({ path }: { path: string }) => path === `body.${field}`);
        expect(issue?.message, JSON.stringify(body.details)).to.include(rule);
        expect((await get('/inventory')).body).to.deep.include({
          hardware: {},
          lastUser: null,
          softwareCount: 0,
          collectedAt: null,
        });
      });
    }

    const sized = (bytes: number) => {
      const body = JSON.stringify({ collectedAt: COLLECTED, padding: '' });
      return body.replace('""', JSON.stringify('x'.repeat(bytes - body.length)));
    };
    const send = async (body: Buffer | string, encoding?: string) => {
      const answer = await fetch(`${app.url}/api/v1/agents/${device.deviceId}/inventory`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${device.token}`,
          'content-type': 'application/json',
          ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
        },
        body: typeof body === 'string' ? body : new Uint8Array(body),
      });
      return [answer.status, ((await answer.json()) as { code?: string }).code];
    };

    it('if it is a byte over a megabyte', async () => {
      expect(await send(sized(1_000_000))).to.deep.equal([200, undefined]);
      expect(await send(sized(1_000_001))).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
    });

    it('if it is over a megabyte once it is unpacked', async () => {
      expect(await send(gzipSync(sized(1_000_000)), 'gzip')).to.deep.equal([200, undefined]);
      expect(await send(gzipSync(sized(1_000_001)), 'gzip')).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
      const bomb = gzipSync(Buffer.alloc(200_000_000, 0x20));
      expect(bomb.length).to.be.lessThan(300_000);
      expect(await send(bomb, 'gzip')).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
      expect(await send(gzipSync(sized(5000)).subarray(0, 30), 'gzip')).to.deep.equal([
        400,
        'VALIDATION_FAILED',
      ]);
    });
  });

  it('belongs to one device, and one organization', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const stranger = await buildTenant(app);
    const theirs = await buildDevice(app, stranger.orgId);
    for (const token of [other.token, theirs.token]) {
      const { status, body } = await tell({ lastUser: 'x' }, { ...device, token });
      expect([status, body.code]).to.deep.equal([404, 'NOT_FOUND']);
    }
    await tell({ software: [{ name: 'Secret Tool' }] });
    await tell({ software: [{ name: 'Secret Tool' }] }, theirs);
    for (const path of ['/inventory', '/software', '/software/changes']) {
      expect((await get(path, { token: stranger.admin.token })).status, path).to.equal(404);
      expect((await get(path, { id: theirs.deviceId, token: stranger.admin.token })).status, path).to.equal(
        200,
      );
      expect((await get(path, { token: tenant.technician.token })).status, path).to.equal(200);
    }
    const { body } = await app.call('GET', '/software?search=secret', { token: stranger.admin.token });
    expect(withoutTimes(body.data)).to.deep.equal([
      {
        name: 'Secret Tool',
        deviceCount: 1,
        versionCount: 1,
        versions: [{ version: null, deviceCount: 1 }],
      },
    ]);
  });

  it('of a device that is gone is answered with 404, and with 401 once its token is forgotten', async () => {
    await tell({ software: [{ name: 'a' }] });
    await sql('delete from devices where id = ? returning id', [device.deviceId]);
    const { status, body } = await eventually(
      () => tell({ software: [] }),
      (answer) => answer.status !== 404,
    );
    expect([status, body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
  });

  it('moves with its device to another organization, which has titles of its own', async () => {
    const target = await buildTenant(app);
    const neighbour = await buildDevice(app, target.orgId);
    await tell({ software: [{ name: 'b', version: '9' }, { name: 'x' }] }, neighbour);
    const list = [{ name: 'a' }, { name: 'b', version: '1' }, { name: 'b', version: '2' }, { name: 'c' }];
    await tell({ software: list, interfaces: [{ name: 'eth0' }] });
    await tell({ software: list.slice(0, 3) });
    // What else hangs on a device is not this feature's.
    await sql('delete from agent_credentials where device_id = ? returning 1', [device.deviceId]);
    const site = await buildSite(app, target.orgId);
    await sql('update devices set org_id = ?, site_id = ? where id = ? returning 1', [
      target.orgId,
      site,
      device.deviceId,
    ]);
    const token = target.admin.token;
    const installed = (await get('/software', { token })).body.data.map(
      ({ name, version }: { name: string; version: string | null }) => `${name} ${version ?? '-'}`,
    );
    expect(installed).to.deep.equal(['a -', 'b 1', 'b 2']);
    expect((await get('/software/changes', { token })).body.data).to.have.length(1);
    expect((await get('/inventory', { token })).body.interfaces).to.have.length(1);
    const { body } = await app.call('GET', '/software?search=b', { token });
    expect(body.data[0]).to.deep.include({ name: 'b', deviceCount: 2, versionCount: 3 });
    expect((await get('/software')).status).to.equal(404);
    // And the key itself still holds: nothing points to a title of another organization.
    const astray = await asOwner(
      app.database.ownerUrl,
      `select 1 from device_software s left join software_titles t on t.org_id = s.org_id and t.id = s.title_id
      where t.id is null`,
    );
    expect(astray).to.deep.equal([]);
  });
});
