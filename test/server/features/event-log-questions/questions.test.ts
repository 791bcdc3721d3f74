import { expect } from 'chai';
import { ASKS_MAX } from '../../../../src/features/event-log-questions/asking.ts';
import { QUESTION_MAX_BYTES } from '../../../../src/features/event-log-questions/question.queries.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import type { FakeDevice } from '../../../support/fake-device.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';
import { entry, questionGround, SUMMARY } from './questions-support.ts';

const NONE = { waiting: 0, asked: 0, answered: 0, failed: 0, neverCame: 0, cancelled: 0, gone: 0 };
const LIVE_QUERY_MS = 30_000;

describe('a standing question', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  const {
    send,
    sql,
    hasten,
    untilAsked,
    ask,
    come: connect,
    leave,
    untilOutcome,
  } = questionGround(
    () => app,
    () => tenant.technician,
  );
  const come = async (which: EnrolledDevice) => {
    const agent = await connect(which);
    agents.push(agent);
    return agent;
  };

  before(async () => {
    app = await createTestApp();
  });
  after(() => app.close());
  beforeEach(async () => {
    agents = [];
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });
  afterEach(async () => {
    for (const agent of agents) agent.close();
    await sql(`update work set stage = 'ended', status = 'cancelled', holder_id = null, finished_at = now()
      where finished_at is null`);
  });

  it('is asked of a device when it comes back, and its answer is kept', async () => {
    const question = await ask([device.deviceId], { name: 'Bad disks', atMostRowsPerDevice: 5 });
    expect(question).to.deep.include({
      name: 'Bad disks',
      status: 'open',
      devices: 1,
      days: 3,
      atMostRowsPerDevice: 5,
      outcomes: { ...NONE, waiting: 1 },
    });
    await app.settle();
    expect((await send('GET', `/${question.id}`)).body.outcomes).to.deep.equal({ ...NONE, waiting: 1 });

    const agent = await come(device);
    const frame = await untilAsked(agent);
    expect(frame.type).to.equal('eventlogs.query');
    expect(frame.payload).to.deep.equal({ name: 'System', level: ['error'], page: 1, limit: 5 });
    expect((await send('GET', `/${question.id}`)).body.outcomes).to.deep.equal({ ...NONE, asked: 1 });
    await agent.rows(frame, [entry(9), entry(8)]);
    await agent.succeed(frame, { ...SUMMARY, total: 40 });

    const answer = await untilOutcome(question.id, device, 'answered');
    expect(answer.data).to.deep.equal([entry(9), entry(8)]);
    expect(answer).to.deep.include({ truncated: false, leftOut: 0, summary: { ...SUMMARY, total: 40 } });
    expect(answer.device).to.deep.include({ deviceId: device.deviceId, entries: 2, code: null });
    const { body } = await send('GET', `/${question.id}`);
    expect(body).to.deep.include({ status: 'over', outcomes: { ...NONE, answered: 1 } });
    const listed = await send('GET', '');
    expect(listed.body.data).to.deep.equal([body]);
    expect(listed.body.pagination.total).to.equal(1);
    const devices = await send('GET', `/${question.id}/devices?outcome=answered,failed`);
    expect(devices.body.data).to.deep.equal([answer.device]);
    expect((await send('GET', `/${question.id}/devices?outcome=waiting`)).body.data).to.deep.equal([]);
  });

  it('is asked soon of a device that is connected', async () => {
    const agent = await come(device);
    const { id } = await ask([device.deviceId]);
    const frame = await untilAsked(agent);
    await agent.succeed(frame, SUMMARY);
    const { data, device: found } = await untilOutcome(id, device, 'answered');
    expect([data, found.entries]).to.deep.equal([[], 0]);
  });

  it('leaves an entry in the audit trail when it is made, when it is cancelled, and when an answer is read', async () => {
    const agent = await come(device);
    const { id } = await ask([device.deviceId]);
    await agent.succeed(await untilAsked(agent), SUMMARY);
    // The first read of the answer is the one that the trail has; those before it showed nothing of a log.
    await untilOutcome(id, device, 'answered');
    await untilOutcome(id, device, 'answered');
    const second = await ask([device.deviceId]);
    expect((await send('POST', `/${second.id}/cancel`)).status).to.equal(200);
    expect((await send('DELETE', `/${id}`)).status).to.equal(200);
    await app.server.chainWriter.flush();
    const rows = await sql(
      `select action, details from audit_logs where org_id = $1 and actor_id = $2 order by "timestamp", id`,
      [tenant.orgId, tenant.technician.id],
    );
    expect(rows.map((row) => String(row['action']))).to.deep.equal([
      'event_log_question.create',
      'data.access',
      'event_log_question.create',
      'event_log_question.cancel',
      'event_log_question.delete',
    ]);
    expect(rows[1]?.['details']).to.deep.equal({
      how: 'question',
      questionId: id,
      conditions: { name: 'System', level: ['error'] },
    });
  });

  describe('and its tenant', () => {
    it('is unknown to another tenant, which cannot target its devices either', async () => {
      const other = await buildTenant(app);
      const { id } = await ask([device.deviceId]);
      for (const by of [other.admin, other.technician]) {
        for (const [method, path] of [
          ['GET', `/${id}`],
          ['GET', `/${id}/devices`],
          ['GET', `/${id}/devices/${device.deviceId}`],
          ['POST', `/${id}/cancel`],
          ['DELETE', `/${id}`],
        ] as const) {
          expect((await send(method, path, undefined, by)).status, `${method} ${path}`).to.equal(404);
        }
        expect((await send('GET', '', undefined, by)).body.data).to.deep.equal([]);
        const target = { deviceIds: [device.deviceId] };
        const made = await send('POST', '', { target, query: { name: 'System' } }, by);
        expect(made.status).to.equal(400);
        expect(made.body.error).to.contain('body.target.deviceIds.0');
      }
    });

    it('needs the right to query event logs, and devices:write to end that of another person', async () => {
      const { orgId } = tenant;
      const viewer = await buildPerson(app, {
        scope: 'organization',
        orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      const { id } = await ask([device.deviceId]);
      expect((await send('GET', `/${id}`, undefined, viewer)).status).to.equal(200);
      expect((await send('POST', `/${id}/cancel`, undefined, viewer)).status).to.equal(403);
      expect((await send('DELETE', `/${id}`, undefined, viewer)).status).to.equal(403);
      const own = await ask([device.deviceId], {}, viewer);
      expect((await send('POST', `/${own.id}/cancel`, undefined, viewer)).status).to.equal(200);
      await sql(`update roles set permissions = array_remove(permissions, 'devices:read') where id = $1`, [
        SYSTEM_ROLES.organizationViewer,
      ]);
      try {
        expect((await send('GET', `/${id}`, undefined, viewer)).status).to.equal(403);
        const target = { deviceIds: [device.deviceId] };
        const made = await send('POST', '', { target, query: { name: 'System' } }, viewer);
        expect(made.status).to.equal(403);
      } finally {
        await sql(`update roles set permissions = array_append(permissions, 'devices:read') where id = $1`, [
          SYSTEM_ROLES.organizationViewer,
        ]);
      }
    });

    it('of a partner is made and seen by people who reach all its organizations', async () => {
      const { partnerId, orgId, admin } = tenant;
      const second = await buildOrganization(app, partnerId);
      await buildSite(app, second);
      const elsewhere = await buildDevice(app, second);
      const limited = await buildPerson(app, {
        scope: 'partner',
        partnerId,
        orgAccess: 'selected',
        orgIds: [orgId],
      });
      const deviceIds = [device.deviceId, elsewhere.deviceId];
      const { id } = await ask(deviceIds, {}, admin);
      expect((await send('GET', `/${id}/devices`, undefined, admin)).body.data).to.have.length(2);
      expect((await send('GET', `/${id}`, undefined, limited)).status).to.equal(404);
      expect((await send('GET', `/${id}`)).status).to.equal(404);
      const query = { name: 'System' };
      const attempts = [
        [{ target: { deviceIds }, query }, 403],
        [{ target: { deviceIds }, query, orgId }, 400],
        [{ target: { all: true }, query, orgId: second }, 403],
        [{ target: { deviceIds: [device.deviceId] }, query, orgId }, 201],
      ] as const;
      for (const [body, status] of attempts) {
        expect((await send('POST', '', body, limited)).status, JSON.stringify(body)).to.equal(status);
      }
    });
  });

  it('refuses what no device could be asked', async () => {
    const target = { deviceIds: [device.deviceId] };
    const query = { name: 'System' };
    for (const [body, part] of [
      [{ target, query, days: 31 }, 'days'],
      [{ target, query, days: 0 }, 'days'],
      [{ target, query, atMostRowsPerDevice: 501 }, 'atMostRowsPerDevice'],
      [{ target, query: {} }, 'query.name'],
      [{ target, query: { name: 'System', text: 'a\0b' } }, 'query.text'],
      [{ target, query: { name: 'System', page: 2 } }, 'page'],
      [{ target: {}, query }, 'target'],
      [{ target: { deviceIds: [newId()] }, query }, 'target.deviceIds.0'],
    ] as const) {
      const { status, body: answer } = await send('POST', '', body);
      expect(status, JSON.stringify(body)).to.equal(400);
      expect(JSON.stringify(answer)).to.contain(part);
    }
    const empty = await buildTenant(app);
    const made = await send('POST', '', { target: { all: true }, query }, empty.technician);
    expect([made.status, made.body.error]).to.deep.equal([
      409,
      'The target has no device that can be asked.',
    ]);
  });

  describe('and a device that', () => {
    let id: string;
    let agent: FakeDevice;
    beforeEach(async () => {
      ({ id } = await ask([device.deviceId], { atMostRowsPerDevice: 3 }));
      agent = await come(device);
    });

    it('refuses it has failed with its own reason', async () => {
      await agent.fail(await untilAsked(agent), 'LOG_NOT_FOUND', 'There is no log System.');
      const { device: found, data, summary } = await untilOutcome(id, device, 'failed');
      expect(found).to.include({ code: 'LOG_NOT_FOUND', message: 'There is no log System.' });
      expect([data, summary]).to.deep.equal([[], null]);
    });

    it('sends too many entries has failed, and none of them is kept', async () => {
      const frame = await untilAsked(agent);
      await agent.rows(
        frame,
        [1, 2, 3, 4].map((number) => entry(number)),
      );
      const { device: found, data } = await untilOutcome(id, device, 'failed');
      expect([found.code, data]).to.deep.equal(['TOO_MANY_ROWS', []]);
    });

    it('sends nonsense has failed', async () => {
      const frame = await untilAsked(agent);
      await agent.rows(frame, [{ recordId: 'x'.repeat(900_000) }] as never);
      expect((await untilOutcome(id, device, 'failed')).device.code).to.equal('INVALID_ROWS');
    });

    it('sends a megabyte has what is too large left out, which the answer says', async () => {
      const frame = await untilAsked(agent);
      await agent.rows(frame, [entry(3), entry(2, { message: 'x'.repeat(600_000) })], 0);
      await agent.rows(frame, [entry(1, { message: 'NUL \0 in it' })], 1);
      await agent.succeed(frame, SUMMARY);
      const answer = await untilOutcome(id, device, 'answered');
      expect(answer.data.map(({ recordId }: { recordId: number }) => recordId)).to.deep.equal([3, 1]);
      expect(answer).to.deep.include({ leftOut: 1, truncated: true });
      expect(answer.device.entries).to.equal(2);
    });

    it('remarks on its reading what Postgres does not take, and at length, has the rest of the remark kept', async () => {
      const frame = await untilAsked(agent);
      await agent.rows(frame, [entry(1)]);
      await agent.succeed(frame, { ...SUMMARY, note: `NUL \0 in it ${'x'.repeat(800_000)}` });
      const answer = await untilOutcome(id, device, 'answered');
      expect(answer.data).to.deep.equal([entry(1)]);
      expect(answer.summary.note)
        .to.match(/^NUL \uFFFD in it x+…$/)
        .and.to.have.length(2000);
    });

    it('answers a question that has no more room has its entries counted, and not kept', async () => {
      const frame = await untilAsked(agent);
      await sql('update event_log_questions set stored_bytes = $2 where id = $1', [
        id,
        QUESTION_MAX_BYTES - 10,
      ]);
      await agent.rows(frame, [entry(2), entry(1)]);
      await agent.succeed(frame, SUMMARY);
      const answer = await untilOutcome(id, device, 'answered');
      expect(answer).to.deep.include({ data: [], leftOut: 2, truncated: true });
    });

    it('answers another request is not heard', async () => {
      const frame = await untilAsked(agent);
      await agent.succeed({ ...frame, id: newId() }, SUMMARY).catch(() => undefined);
      expect((await send('GET', `/${id}`)).body.outcomes.asked).to.equal(1);
      await agent.succeed(frame, SUMMARY);
      await untilOutcome(id, device, 'answered');
    });

    it('never answers is asked some times, and has then failed', async () => {
      for (let asks = 1; asks <= ASKS_MAX; asks += 1) {
        await untilAsked(agent);
        await testClock.advance(LIVE_QUERY_MS + 1);
        testClock.jump(-LIVE_QUERY_MS - 1);
        const outcome = asks < ASKS_MAX ? 'waiting' : 'failed';
        await eventually(
          async () => (await send('GET', `/${id}`)).body.outcomes[outcome],
          (count) => count === 1,
        );
      }
      const { device: found } = await untilOutcome(id, device, 'failed');
      expect(found.code).to.equal('TIMED_OUT');
      expect(agent.commands).to.deep.equal([]);
    });

    it('goes away while it is asked is asked when it comes back', async () => {
      await untilAsked(agent);
      await leave(agent, device);
      await untilOutcome(id, device, 'waiting');
      agent = await come(device);
      await agent.succeed(await untilAsked(agent), SUMMARY);
      await untilOutcome(id, device, 'answered');
    });

    it('is moved to another organization while it is asked is not asked there', async () => {
      await untilAsked(agent);
      const orgId = await buildOrganization(app, tenant.partnerId);
      const siteId = await buildSite(app, orgId);
      const moved = await app.call('POST', `/devices/${device.deviceId}/move`, {
        token: tenant.admin.token,
        body: { orgId, siteId },
      });
      expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
      await leave(agent, device);
      const again = await come(device);
      await eventually(
        async () => {
          await hasten();
          return sql('select outcome, code from event_log_answers where question_id = $1', [id]);
        },
        (rows) => rows[0]?.code === 'DEVICE_MOVED',
      );
      expect(again.commands).to.deep.equal([]);
      expect((await send('GET', `/${id}`)).body).to.deep.include({
        status: 'over',
        outcomes: { ...NONE, gone: 1 },
      });
    });

    it('is decommissioned while it is asked has never come back at the end', async () => {
      await untilAsked(agent);
      const removed = await app.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
      expect(removed.status, JSON.stringify(removed.body)).to.equal(200);
      await untilOutcome(id, device, 'waiting');
      await hasten();
      await sql(
        `update work set deadline_at = now() where kind = 'event_log_question' and finished_at is null`,
      );
      const { device: found } = await untilOutcome(id, device, 'failed');
      expect(found.code).to.equal('UNANSWERED');
    });

    it('answers after the question was cancelled is told to stop, and not heard', async () => {
      const frame = await untilAsked(agent);
      const cancelled = await send('POST', `/${id}/cancel`);
      expect(cancelled.status).to.equal(200);
      expect(cancelled.body.status).to.equal('cancelled');
      await eventually(
        () => agent.cancelled,
        (ids) => ids.includes(frame.id),
      );
      await agent.succeed(frame, SUMMARY);
      await untilOutcome(id, device, 'cancelled');
      const again = await send('POST', `/${id}/cancel`);
      expect([again.status, again.body.error]).to.deep.equal([409, 'No device is waited for any more.']);
    });

    it('answers after the question was deleted has nothing stored', async () => {
      const frame = await untilAsked(agent);
      expect((await send('DELETE', `/${id}`)).status).to.equal(200);
      await agent.succeed(frame, SUMMARY);
      expect((await send('GET', `/${id}`)).status).to.equal(404);
      await eventually(
        async () => {
          await hasten();
          return sql(`select finished_at from work where kind = 'event_log_question' and device_id = $1`, [
            device.deviceId,
          ]);
        },
        (rows) => rows[0]?.finished_at !== null,
      );
      expect(
        await sql('select id from event_log_answers where device_id = $1', [device.deviceId]),
      ).to.deep.equal([]);
    });

    it('has answered a server that died is asked again, and its answer is stored once', async () => {
      const first = await untilAsked(agent);
      // The lease of a server that is gone has passed, and another one has it.
      await sql(`update work set stage = 'ready', holder_id = null, fence = fence + 1
        where kind = 'event_log_question' and stage = 'leased'`);
      const second = await untilAsked(agent);
      await agent.rows(first, [entry(1)]);
      await agent.succeed(first, SUMMARY);
      await agent.rows(second, [entry(2)]);
      await agent.succeed(second, SUMMARY);
      const { data } = await untilOutcome(id, device, 'answered');
      expect(data).to.deep.equal([entry(2)]);
      const [stored] = await sql('select stored_bytes, device_count from event_log_questions where id = $1', [
        id,
      ]);
      expect(Number(stored?.['stored_bytes'])).to.equal(JSON.stringify(entry(2)).length);
    });
  });

  describe('of a person who', () => {
    const cases: [string, (id: string) => Promise<unknown>][] = [
      ['was removed', (id) => sql('delete from organization_users where user_id = $1', [id])],
      ['was disabled', (id) => sql(`update users set status = 'disabled' where id = $1`, [id])],
    ];
    for (const [what, end] of cases) {
      it(`${what} is not asked any more`, async () => {
        const person = await buildPerson(app, {
          scope: 'organization',
          orgId: tenant.orgId,
          role: SYSTEM_ROLES.organizationTechnician,
        });
        const { id } = await ask([device.deviceId], {}, person);
        await end(person.id);
        const agent = await come(device);
        const { device: found } = await untilOutcome(id, device, 'failed');
        expect(found.code).to.equal('RIGHT_LOST');
        expect(agent.commands).to.deep.equal([]);
      });
    }
  });

  it('of 2,000 devices is made and listed by as many statements as one of 200, and cancelled in parts', async () => {
    const countOf = async (act: () => Promise<void>) => (await sentStatements(['muster'], act)).length;
    const all = { target: { all: true }, query: { name: 'System' } };
    const counts: number[][] = [];
    for (const devices of [200, 2000]) {
      await sql(
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
        select gen_random_uuid(), org_id, site_id, 'BULK-' || n, os_type, os_version, architecture, agent_version, enrolled_at
        from devices, generate_series((select count(*) + 1 from devices d where d.org_id = $3), $2) n where devices.id = $1`,
        [device.deviceId, devices, tenant.orgId],
      );
      await sql('analyze devices');
      let id = '';
      const made = await countOf(async () => {
        const answer = await send('POST', '', all);
        expect([answer.status, answer.body.devices]).to.deep.equal([201, devices]);
        id = answer.body.id;
      });
      const listed = await countOf(async () => {
        expect((await send('GET', '')).body.data[0].outcomes.waiting).to.equal(devices);
        expect((await send('GET', `/${id}/devices`)).body.pagination.total).to.equal(devices);
      });
      const cancelled = await countOf(async () => {
        expect((await send('POST', `/${id}/cancel`)).body.outcomes.cancelled).to.equal(devices);
      });
      counts.push([made, listed, cancelled]);
    }
    const [[made, listed, cancelled] = []] = counts;
    expect(counts[1]).to.deep.equal([made, listed, (cancelled ?? 0) + 7]);
  });

  it('ends without those that never came', async () => {
    const { id } = await ask([device.deviceId]);
    await sql(
      `update work set deadline_at = now() where kind = 'event_log_question' and finished_at is null`,
    );
    const { device: found } = await untilOutcome(id, device, 'never_came');
    expect(found).to.include({ code: null, askedAt: null });
    expect((await send('GET', `/${id}`)).body).to.deep.include({
      status: 'over',
      outcomes: { ...NONE, neverCame: 1 },
    });
  });
});
