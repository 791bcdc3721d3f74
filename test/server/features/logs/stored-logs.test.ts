import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

type Entry = Record<string, unknown>;

const event = (more: Entry = {}): Entry => ({
  timestamp: '2026-03-01T08:00:00.000Z',
  level: 'error',
  category: 'system',
  source: 'disk',
  eventId: `System:${newId()}`,
  message: 'The disk is nearly full.',
  details: { log: 'System', free: 12 },
  ...more,
});

describe('stored event logs', () => {
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

  const submit = (events: unknown, { deviceId, token } = device) =>
    app.call('PUT', `/agents/${deviceId}/eventlogs`, { token, body: { events } });
  const read = (query = '', token = tenant.admin.token, id = device.deviceId) =>
    app.call('GET', `/devices/${id}/eventlogs${query}`, { token });
  const messages = async (query: string) =>
    (await read(query)).body.data.map(({ message }: { message: string }) => message);
  const stored = async () => (await read()).body.pagination.total;

  it('are kept as they were sent, and shown newest first', async () => {
    const older = event({ timestamp: '2026-03-01T08:00:00.123+02:00', message: 'ünï 😀 \u202e"\\ \n end' });
    const newer = event({ timestamp: '2026-03-02T00:00:00Z', details: undefined, eventId: undefined });
    const { status, body } = await submit([older, newer]);
    expect([status, body]).to.deep.equal([200, { success: true, count: 2 }]);

    const shown = await read();
    expect(shown.body.pagination).to.deep.equal({ page: 1, limit: 50, total: 2 });
    const [first, second] = shown.body.data;
    expect(first).to.deep.include({ timestamp: '2026-03-02T00:00:00.000Z', eventId: null, details: null });
    expect(second).to.deep.include({
      ...older,
      timestamp: '2026-03-01T06:00:00.123Z',
      deviceId: device.deviceId,
      orgId: tenant.orgId,
    });
    expect(Date.now() - Date.parse(second.createdAt)).to.be.within(-1000, 30_000);
  });

  it('have characters replaced that the database cannot store', async () => {
    const details = { a: [{ 'b\0': 'x\ud800' }] };
    expect((await submit([event({ message: 'a\0b', source: 'a\udc00', details })])).status).to.equal(200);
    expect((await read()).body.data[0]).to.deep.include({
      message: 'a\ufffdb',
      source: 'a\ufffd',
      details: { a: [{ 'b\ufffd': 'x\ufffd' }] },
    });
  });

  it('that are known by source and event id are passed over without a word', async () => {
    const known = event({ eventId: 'Application:1' });
    expect((await submit([known, known])).body.count).to.equal(1);
    const again = [{ ...known, message: 'another' }, event(), { ...known, source: 'other' }];
    expect((await submit(again)).body).to.deep.equal({ success: true, count: 2 });
    expect(await messages('?source=disk'))
      .to.include('The disk is nearly full.')
      .and.not.include('another');
    // Another device has ids of its own, and an event without one is always another.
    const other = await buildDevice(app, tenant.orgId);
    expect((await submit([known], other)).body.count).to.equal(1);
    const anonymous = event({ eventId: undefined });
    expect((await submit([anonymous, anonymous])).body.count).to.equal(2);
    expect((await submit([])).body).to.deep.equal({ success: true, count: 0 });
  });

  it('that are sent by several at once are kept once', async () => {
    const events = Array.from({ length: 200 }, (_, i) => event({ eventId: `x:${i}` }));
    const orders = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? events : events.toReversed()));
    const answers = await Promise.all(orders.map((order) => submit(order)));
    expect(answers.map(({ status }) => status)).to.deep.equal(answers.map(() => 200));
    expect(answers.reduce((sum, { body }) => sum + body.count, 0)).to.equal(200);
    expect(await stored()).to.equal(200);
  });

  it('leave an entry in the audit trail, in the name of the device', async () => {
    await submit([event(), event()]);
    await app.server.chainWriter.flush();
    const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw('select * from audit_logs where resource_id = ?', [device.deviceId]),
    );
    const entries = rows.filter(({ action }: { action: string }) => action === 'agent.eventlogs.submit');
    expect(entries).to.have.length(1);
    expect(entries[0]).to.deep.include({
      org_id: tenant.orgId,
      actor_type: 'agent',
      actor_id: device.deviceId,
      resource_type: 'device',
      details: { submitted: 2, inserted: 2 },
    });
  });

  it('are found by each condition, and by all together', async () => {
    await submit([
      event({ message: 'a', level: 'warning', category: 'security', source: 'sshd' }),
      event({ message: 'b', timestamp: '2026-03-01T23:59:59.999Z' }),
      event({ message: 'c', timestamp: '2026-03-02T00:00:00.000Z', level: 'critical', category: 'hardware' }),
      event({ message: 'd', timestamp: '2026-03-03T12:00:00.000Z', level: 'info', category: 'application' }),
    ]);
    expect(await messages('')).to.deep.equal(['d', 'c', 'b', 'a']);
    expect(await messages('?level=warning')).to.deep.equal(['a']);
    expect(await messages('?level=warning, CRITICAL')).to.deep.equal(['c', 'a']);
    expect(await messages('?category=hardware,application')).to.deep.equal(['d', 'c']);
    expect(await messages('?source=sshd')).to.deep.equal(['a']);
    expect(await messages('?source=SSHD')).to.deep.equal([]);
    expect(await messages('?startDate=2026-03-02')).to.deep.equal(['d', 'c']);
    expect(await messages('?endDate=2026-03-01')).to.deep.equal(['b', 'a']);
    expect(await messages('?startDate=2026-03-01T23:59:59.999Z&endDate=2026-03-02')).to.deep.equal([
      'c',
      'b',
    ]);
    expect(
      await messages('?source=disk&level=error,critical&category=system&startDate=2026-03-01'),
    ).to.deep.equal(['b']);
    const second = await read('?page=2&limit=3');
    expect(second.body.pagination).to.deep.equal({ page: 2, limit: 3, total: 4 });
    expect(second.body.data).to.have.length(1);
    expect((await read('?page=0&limit=1000')).body.pagination).to.include({ page: 1, limit: 500 });
  });

  it('are not looked for by conditions that make no sense', async () => {
    for (const [query, path] of [
      ['?startDate=2026-03-02&endDate=2026-03-01', 'query.startDate'],
      ['?startDate=2026-03-01T10:00:00Z&endDate=2026-03-01T09:00:00Z', 'query.startDate'],
      ['?startDate=yesterday', 'query.startDate'],
      ['?endDate=2026-02-30', 'query.endDate'],
      ['?level=loud', 'query.level.0'],
      ['?category=', 'query.category.0'],
      [`?level=${Array.from({ length: 5 }, () => 'info').join(',')}`, 'query.level'],
    ]) {
      const { status, body } = await read(query);
      expect([status, body.details?.[0]?.path], query).to.deep.equal([400, path]);
    }
  });

  describe('are left out one by one, naming what is wrong,', () => {
    const refusedAt = async (events: unknown, path: string) => {
      const { status, body } = await submit(events);
      expect([status, body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
      expect(body.details.map((issue: { path: string }) => issue.path)).to.include(path);
      expect(await stored()).to.equal(0);
    };
    const faults: Record<string, [Entry, string]> = {
      'with a level of another list': [{ level: 'warn' }, 'level'],
      'with a category that is none': [{ category: 'network' }, 'category'],
      'without a source': [{ source: '' }, 'source'],
      'with an event id that is a number': [{ eventId: 7 }, 'eventId'],
      'with a time without an offset': [{ timestamp: '2026-03-01T08:00:00' }, 'timestamp'],
      'from before there were computers': [{ timestamp: '1969-12-31T23:59:59Z' }, 'timestamp'],
      'from year 0': [{ timestamp: '0000-01-01T00:00:00+23:59' }, 'timestamp'],
      'from far ahead': [{ timestamp: new Date(Date.now() + 25 * 3_600_000).toISOString() }, 'timestamp'],
      'from the last year there is': [{ timestamp: '9999-12-31T23:59:59.999Z' }, 'timestamp'],
      'with details that are no object': [{ details: ['x'] }, 'details'],
      'with details nested too deep': [
        { details: JSON.parse(`{"a":${'['.repeat(40)}${']'.repeat(40)}}`) as Entry },
        'details',
      ],
    };
    for (const [what, [fault, field]] of Object.entries(faults)) {
      it(what, async () => {
        const { status, body } = await submit([event(), event(fault), event()]);
        expect([status, body.count]).to.deep.equal([200, 2]);
        expect(body.refused.map(({ path }: { path: string }) => path)).to.deep.equal([
          `body.events.1.${field}`,
        ]);
        expect(await stored()).to.equal(2);
      });
    }

    it('and all of them with 400 if none is left', async () => {
      await refusedAt([event({ level: 'warn' }), 'x'], 'body.events.1');
    });

    it('and are noted so in the audit trail', async () => {
      await submit([event(), event({ level: 'warn' }), event({ message: 'x'.repeat(40_000) })]);
      await app.server.chainWriter.flush();
      const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(`select details from audit_logs where resource_id = ? and action = 'agent.eventlogs.submit'`, [
          device.deviceId,
        ]),
      );
      expect(rows).to.deep.equal([{ details: { submitted: 3, inserted: 2, refused: 1, truncated: 1 } }]);
    });

    it('not looked at if there are more than could be events', async () => {
      const { status, body } = await app.call('PUT', `/agents/${device.deviceId}/eventlogs`, {
        token: device.token,
        rawBody: `{"events":[${Array.from({ length: 400_000 }, () => '{}').join(',')}]}`,
      });
      expect([status, body.details.length]).to.deep.equal([400, 1]);
    });

    it('with the first hundred faults if there are more', async () => {
      const bad = Array.from({ length: 500 }, () => ({}));
      const { status, body } = await submit([...bad, event()]);
      expect([status, body.count, body.refused.length, body.refusedCount]).to.deep.equal([200, 1, 100, 500]);
    });

    it('with details of a megabyte that is nothing but depth', async () => {
      const depth = 500_000;
      const details = `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
      const rawBody = JSON.stringify({ events: [event({ details: 'HERE' })] }).replace('"HERE"', details);
      const { status, body } = await app.call('PUT', `/agents/${device.deviceId}/eventlogs`, {
        token: device.token,
        rawBody,
      });
      expect([status, body.details?.[0]?.path]).to.deep.equal([400, 'body.events.0.details']);
    });
  });

  it('are taken in any number that fits into the body', async () => {
    const many = Array.from({ length: 5000 }, (_, i) => event({ eventId: `many:${i}`, details: undefined }));
    expect((await submit(many)).body).to.deep.equal({ success: true, count: 5000 });
    expect((await submit(many)).body).to.deep.equal({ success: true, count: 0 });
    expect((await read('?limit=500')).body.data).to.have.length(500);
    const large = Array.from({ length: 500 }, () => event({ message: 'x'.repeat(3000) }));
    expect((await submit(large)).body.count).to.equal(500);
  });

  it('are cut if they are too long, and say so', async () => {
    const source = 's'.repeat(300);
    const eventId = 'i'.repeat(120);
    const message = `${'x'.repeat(32_767)}😀${'y'.repeat(10_000)}`;
    const sent = [
      event({ source, eventId: `${eventId}1`, message }),
      event({ source, eventId: `${eventId}2`, details: undefined }),
    ];
    expect((await submit(sent)).body).to.deep.equal({ success: true, count: 2 });
    // The same again is known, although its id was cut.
    expect((await submit(sent)).body.count).to.equal(0);
    const { data } = (await read('?level=error')).body;
    const cut = data.find((one: { message: string }) => one.message.startsWith('xxx'));
    expect(cut.message).to.equal('x'.repeat(32_767));
    expect(cut.source).to.equal('s'.repeat(255));
    expect(cut.eventId).to.have.length(100);
    expect(cut.details).to.deep.equal({
      log: 'System',
      free: 12,
      truncated: { source: 300, eventId: 121, message: message.length },
    });
    const other = data.find((one: { id: string }) => one.id !== cut.id);
    expect(other.eventId).to.have.length(100).and.not.equal(cut.eventId);
    expect(other.details).to.deep.equal({ truncated: { source: 300, eventId: 121 } });
  });

  describe('in a packed body', () => {
    const send = async (body: Buffer) => {
      const answer = await fetch(`${app.url}/api/v1/agents/${device.deviceId}/eventlogs`, {
        method: 'PUT',
        headers: {
          authorization: `Bearer ${device.token}`,
          'content-type': 'application/json',
          'content-encoding': 'gzip',
        },
        body: new Uint8Array(body),
      });
      return { status: answer.status, body: (await answer.json()) as { code: string; count: number } };
    };

    it('are taken', async () => {
      const { status, body } = await send(gzipSync(JSON.stringify({ events: [event()] })));
      expect([status, body.count]).to.deep.equal([200, 1]);
    });

    it('are bounded by what they are unpacked', async () => {
      const bomb = gzipSync(Buffer.alloc(200_000_000, 0x20));
      expect(bomb.length).to.be.lessThan(300_000);
      const { status, body } = await send(bomb);
      expect([status, body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
    });

    it('are refused if they cannot be unpacked', async () => {
      const whole = gzipSync(JSON.stringify({ events: [event()] }));
      for (const broken of [Buffer.from('this is not gzip'), whole.subarray(0, whole.length - 12)]) {
        const { status, body } = await send(broken);
        expect([status, body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
      }
      expect(await stored()).to.equal(0);
    });
  });

  it('belong to one device, and one organization', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const stranger = await buildTenant(app);
    const theirs = await buildDevice(app, stranger.orgId);
    for (const [id, token] of [
      [device.deviceId, other.token],
      [device.deviceId, theirs.token],
      [newId(), device.token],
    ] as const) {
      const { status, body } = await submit([event()], { ...device, deviceId: id, token });
      expect([status, body.code]).to.deep.equal([404, 'NOT_FOUND']);
    }
    await submit([event()]);
    for (const token of [stranger.admin.token, stranger.technician.token]) {
      expect((await read('', token)).status).to.equal(404);
    }
    const sibling = await buildOrganization(app, tenant.partnerId);
    const apart = await buildDevice(app, sibling);
    expect((await read('', tenant.technician.token, apart.deviceId)).status).to.equal(404);
    expect((await read('', tenant.technician.token)).body.pagination.total).to.equal(1);
    expect((await read('', tenant.admin.token, other.deviceId)).body.pagination.total).to.equal(0);
  });

  it('of a device that is gone are answered with 404, and with 401 once its token is forgotten', async () => {
    await submit([event()]);
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx('devices').where({ id: device.deviceId }).delete();
    });
    const { status, body } = await eventually(
      () => submit([event()]),
      (answer) => answer.status !== 404,
    );
    expect([status, body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
  });
});
