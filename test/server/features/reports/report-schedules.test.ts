import { expect } from 'chai';
import { clock } from '../../../../src/clock.ts';
import { reportMail } from '../../../../src/features/reports/report-mail.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { createMailbox, type Mailbox } from '../../../support/mailbox.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

interface Schedule {
  id: string;
  orgId: string | null;
  isPaused: boolean;
  pausedBecause: string | null;
  dueAt: string | null;
  lastDueAt: string | null;
}

describe('schedules of reports', function () {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  const LONG_AGO = new Date('2020-01-01T00:00:00Z');

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  let count = 0;
  const body = (more: Record<string, unknown> = {}) => ({
    name: `Schedule ${++count}`,
    dayOfMonth: 1,
    time: '08:30',
    timezone: 'Europe/Berlin',
    userIds: [],
    addresses: [`reports-${count}@example.com`],
    ...more,
  });
  const create = (more: Record<string, unknown> = {}, { token }: Pick<Person, 'token'> = tenant.admin) =>
    app.call('POST', '/reports/schedules', { token, body: body(more) });
  const change = (id: string, patch: unknown, { token }: Pick<Person, 'token'> = tenant.admin) =>
    app.call('PATCH', `/reports/schedules/${id}`, { token, body: patch });
  const list = async ({ token }: Pick<Person, 'token'> = tenant.admin, query = '') =>
    (await app.call('GET', `/reports/schedules${query}`, { token })).body.data as Schedule[];
  const find = async (id: string) => (await list()).find((schedule) => schedule.id === id);
  const oldOrganization = (row: Record<string, unknown> = {}) =>
    buildOrganization(app, tenant.partnerId, { created_at: LONG_AGO, ...row });
  /** Makes it due now, and lets the servers do what they do then. */
  async function fallDue(id: string): Promise<void> {
    await inSystem((tx) => tx('report_schedules').where({ id }).update({ due_at: clock.date() }));
    await app.settle();
  }
  const mailsTo = async (to: string) => (await mailbox.all()).filter((mail) => mail.includes(`To: ${to}`));
  /** The parts of a mail, decoded. */
  const decoded = (mail: string) =>
    mail
      .replaceAll(/=\r?\n/g, '')
      .replaceAll(/(?:=[0-9A-F]{2})+/g, (bytes) =>
        Buffer.from(bytes.replaceAll('=', ''), 'hex').toString('utf8'),
      );

  it('are created, listed, changed, paused, resumed and deleted, each with an audit entry', async () => {
    const orgId = await oldOrganization();
    const { status, body: created } = await create({ orgId, userIds: [tenant.admin.id] });
    expect(status).to.equal(201);
    expect(created).to.deep.include({ orgId, isPaused: false, pausedBecause: null, lastDueAt: null });
    expect(created.setUpBy.id).to.equal(tenant.admin.id);
    expect(new Date(created.dueAt).getTime()).to.be.greaterThan(clock.now());
    expect((await list(tenant.admin, `?orgId=${orgId}`)).map(({ id }) => id)).to.deep.equal([created.id]);
    expect((await change(created.id, { isPaused: true })).body).to.include({ isPaused: true, dueAt: null });
    expect((await change(created.id, { time: '09:00' })).body).to.include({ isPaused: true, time: '09:00' });
    expect((await change(created.id, { isPaused: false })).body).to.include({ isPaused: false });
    const removed = await app.call('DELETE', `/reports/schedules/${created.id}`, {
      token: tenant.admin.token,
    });
    expect(removed.status).to.equal(200);
    expect(await list(tenant.admin, `?orgId=${orgId}`)).to.deep.equal([]);
    await app.settle();
    const actions = await inSystem((tx) =>
      tx('audit_logs').where({ resource_id: created.id }).orderBy('seq').pluck('action'),
    );
    expect(actions.map((action: string) => action.replace('report_schedule.', ''))).to.deep.equal([
      'create',
      'update',
      'update',
      'update',
      'delete',
    ]);
  });

  it('mail the figures and a link to each recipient once, whatever is repeated', async () => {
    const orgId = await oldOrganization({ name: 'Bakery' });
    const to = 'twice@example.com';
    const { body: schedule } = await create({
      orgId,
      userIds: [tenant.admin.id],
      addresses: [to, to.toUpperCase(), tenant.admin.email],
    });
    await fallDue(schedule.id);
    const own = (await mailsTo(tenant.admin.email)).filter((mail) => mail.includes('Bakery'));
    expect(own).to.have.length(1);
    expect((await mailbox.all()).filter((mail) => /To: twice@example.com/i.test(mail))).to.have.length(1);
    const text = decoded(own[0] ?? '');
    expect(text).to.contain('Devices: 0 in service');
    expect(text).to.match(new RegExp(`/reports\\?org=${orgId}&month=\\d{4}-\\d{2}`));
    // The job runs again, as it does when a server dies behind its last mail.
    const again = await inSystem((tx) =>
      tx('background_jobs')
        .where({ name: 'reports.mail' })
        .update({ state: 'queued', attempt: 0, run_at: tx.fn.now(), finished_at: null, expires_at: null }),
    );
    expect(again).to.equal(1);
    await app.settle();
    expect((await mailsTo(tenant.admin.email)).filter((mail) => mail.includes('Bakery'))).to.have.length(1);
    const after = await find(schedule.id);
    expect(new Date(after?.dueAt ?? 0).getTime()).to.be.greaterThan(clock.now());
    expect(after?.lastDueAt).to.be.a('string');
  });

  it('of a partner mail a report for each organization, but not for those that are younger than the month', async () => {
    const own = await buildTenant(app);
    const [first, second] = [
      await buildOrganization(app, own.partnerId, { name: 'First', created_at: LONG_AGO }),
      await buildOrganization(app, own.partnerId, { name: 'Second', created_at: LONG_AGO }),
    ];
    const to = `all-${newId()}@example.com`;
    const { body: schedule } = await create({ addresses: [to] }, own.admin);
    expect(schedule.orgId).to.equal(null);
    await fallDue(schedule.id);
    const mails = (await mailsTo(to)).map(decoded);
    expect(mails).to.have.length(2);
    expect(mails.join()).to.contain(first).and.to.contain(second).and.not.to.contain(own.orgId);
  });

  it('are made up for once after a long time without a server, and by one of two servers', async () => {
    const orgId = await oldOrganization();
    const to = `late-${newId()}@example.com`;
    const { body: schedule } = await create({ orgId, addresses: [to] });
    const other = await createTestApp({ database: app.database, env: { DATA_DIR: mailbox.dataDir } });
    try {
      const missed = new Date(clock.now() - 100 * 24 * 3_600_000);
      await inSystem((tx) => tx('report_schedules').where({ id: schedule.id }).update({ due_at: missed }));
      await Promise.all([app.settle(), other.settle()]);
      await Promise.all([app.settle(), other.settle()]);
    } finally {
      await other.close();
    }
    expect(await mailsTo(to)).to.have.length(1);
    const lastDueAt = new Date((await find(schedule.id))?.lastDueAt ?? 0).getTime();
    expect(lastDueAt).to.be.within(clock.now() - 32 * 24 * 3_600_000, clock.now());
  });

  it('of a time zone that is not known any more go by UTC, and do not keep back the others', async () => {
    const orgId = await oldOrganization();
    const to = `zone-${newId()}@example.com`;
    const { body: lost } = await create({ orgId, addresses: [to] });
    const { body: other } = await create({ orgId, addresses: [to] });
    await inSystem((tx) =>
      tx('report_schedules').where({ id: lost.id }).update({ timezone: 'Nowhere/City' }),
    );
    await inSystem((tx) =>
      tx('report_schedules').whereIn('id', [lost.id, other.id]).update({ due_at: clock.date() }),
    );
    await app.settle();
    expect(await mailsTo(to)).to.have.length(2);
    expect((await find(lost.id))?.dueAt).to.contain('T08:30:00');
  });

  it('escape names in HTML, and let no name add a header', async () => {
    const name = '<img src=x onerror=alert(1)>\r\nBcc: victim@example.com\r\n\r\nBody';
    const orgId = await oldOrganization({ name });
    const to = `escaped-${newId()}@example.com`;
    const { body: schedule } = await create({ orgId, addresses: [to] });
    await fallDue(schedule.id);
    const [mail = ''] = await mailsTo(to);
    const [head = ''] = mail.split(/\r?\n\r?\n/);
    expect(head).not.to.match(/^Bcc:/im);
    const html = decoded(mail).split('<!doctype html>')[1] ?? '';
    expect(html).to.contain('&lt;img src=x onerror=alert(1)&gt;');
    expect(html).not.to.contain('<img');
  });

  it('say so if the month has not ended on the clocks of the organization', async () => {
    const orgId = await oldOrganization();
    const month = clock.date().toISOString().slice(0, 7);
    const { token } = tenant.admin;
    const report = await app.call('GET', `/reports/month?orgId=${orgId}&month=${month}`, { token });
    const { text, html } = reportMail('ada@example.com', report.body, 'https://muster.example.com');
    for (const part of [text, html]) expect(part).to.contain('The month has not ended there');
    expect(text).not.to.contain('Planned maintenance');
    const plannedMaintenance = { minutes: 125, devices: 3, deviceMinutes: 300, disconnectedMinutes: 10 };
    const availability = { ...report.body.availability, plannedMaintenance };
    const told = reportMail(
      'ada@example.com',
      { ...report.body, availability },
      'https://muster.example.com',
    );
    expect(told.text).to.contain('Planned maintenance: 2 h 5 min, on 3 devices.');
  });

  it('pause, and say why, when the person has lost the right, the access or the account', async () => {
    const { partnerId } = tenant;
    const cases: [string, (person: Person) => Promise<unknown>][] = [
      [
        'does not hold organizations:write',
        (person) =>
          inSystem((tx) =>
            tx('partner_users').where({ user_id: person.id }).update({ role_id: SYSTEM_ROLES.partnerViewer }),
          ),
      ],
      [
        'does not have access',
        (person) =>
          inSystem((tx) => tx('partner_users').where({ user_id: person.id }).update({ org_access: 'none' })),
      ],
      ['has left', (person) => inSystem((tx) => tx('partner_users').where({ user_id: person.id }).delete())],
    ];
    for (const [reason, lose] of cases) {
      const person = await buildPerson(app, { scope: 'partner', partnerId });
      const orgId = await oldOrganization();
      const to = `lost-${newId()}@example.com`;
      const { body: schedule } = await create({ orgId, addresses: [to] }, person);
      await lose(person);
      await fallDue(schedule.id);
      expect(await mailsTo(to), reason).to.deep.equal([]);
      const paused = await find(schedule.id);
      expect(paused, reason).to.include({ isPaused: true });
      expect(paused?.pausedBecause).to.contain(reason);
      const entries = await inSystem((tx) =>
        tx('audit_logs').where({ resource_id: schedule.id, action: 'report_schedule.pause' }),
      );
      expect(entries, reason).to.have.length(1);
      // Who resumes it answers for it.
      const { body: resumed } = await change(schedule.id, { isPaused: false });
      expect(resumed).to.deep.include({ pausedBecause: null, isPaused: false });
      expect(resumed.setUpBy.id).to.equal(tenant.admin.id);
      await fallDue(schedule.id);
      expect(await mailsTo(to), reason).to.have.length(1);
    }
  });

  it('are not reached by strangers, viewers, and those who are kept to other organizations', async () => {
    const orgId = await oldOrganization();
    const { body: schedule } = await create({ orgId });
    const { partnerId } = tenant;
    const stranger = await buildTenant(app);
    expect((await create({ orgId }, stranger.admin)).status).to.equal(403);
    expect((await change(schedule.id, { time: '10:00' }, stranger.admin)).status).to.equal(404);
    expect(await list(stranger.admin)).to.deep.equal([]);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await create({ orgId }, viewer)).status).to.equal(403);
    expect((await change(schedule.id, { time: '10:00' }, viewer)).status).to.equal(403);
    const restricted = await buildPerson(app, {
      scope: 'partner',
      partnerId,
      orgAccess: 'selected',
      orgIds: [await oldOrganization()],
    });
    expect((await create({ orgId }, restricted)).status).to.equal(403);
    expect((await create({}, restricted)).status).to.equal(403);
    expect((await change(schedule.id, { time: '10:00' }, restricted)).status).to.equal(404);
    expect((await create({ orgId, userIds: [stranger.admin.id] })).status).to.equal(400);
  });

  it('refuse what is no schedule, and say which field it is', async () => {
    for (const [field, more] of Object.entries({
      dayOfMonth: { dayOfMonth: 29 },
      time: { time: '24:00' },
      timezone: { timezone: 'Mars/Olympus' },
      addresses: { addresses: ['a@example.com\r\nBcc: b@example.com'] },
      'addresses ': { addresses: [] },
      name: { name: ' ' },
      userIds: { userIds: ['x'] },
    })) {
      const { status, body: answer } = await create(more);
      expect(status, field).to.equal(400);
      expect(JSON.stringify(answer), field).to.contain(field.trim());
    }
    const { body: first } = await create();
    expect((await create({ name: first.name.toUpperCase() })).status).to.equal(409);
    expect((await change(first.id, {})).status).to.equal(400);
  });
});
