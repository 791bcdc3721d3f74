import { expect } from 'chai';
import { checkDomains } from '../../../../../src/features/sso/sso.work.ts';
import { isDomainProven } from '../../../../../src/features/sso/domain.service.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { createTxtLookup } from '../../../../../src/platform/outbound/txt-records.ts';
import { type DnsServer, startDnsServer } from '../../../../support/dns-server.ts';
import {
  buildOrganization,
  buildPerson,
  buildTenant,
  giveSecondFactor,
  type Person,
} from '../../../../support/factories.ts';
import { eventually } from '../../../../support/eventually.ts';
import { testClock } from '../../../../support/test-clock.ts';
import { createTestApp, type TestApp } from '../../../../support/test-app.ts';
import { quietLog } from '../../../../support/quiet-log.ts';

describe('domains of single sign-on', () => {
  let app: TestApp;
  let dns: DnsServer;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let orgAdmin: Person;
  let rival: { orgId: string; admin: Person };

  before(async () => {
    dns = await startDnsServer();
    app = await createTestApp({ outbound: { nameServers: [dns.address] } });
    tenant = await buildTenant(app);
    await giveSecondFactor(app, tenant.admin);
    orgAdmin = await adminOf(tenant.orgId);
    const orgId = (await buildTenant(app)).orgId;
    rival = { orgId, admin: await adminOf(orgId) };
  });
  after(async () => {
    await app.close();
    dns.close();
  });

  const adminOf = async (orgId: string) =>
    giveSecondFactor(app, await buildPerson(app, { scope: 'organization', orgId }));
  const create = (who: Person, body: object) => app.call('POST', '/sso/domains', { token: who.token, body });
  const verify = (who: Person, id: string) =>
    app.call('POST', `/sso/domains/${id}/verify`, { token: who.token });
  const proven = (orgId: string, domain: string) =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      isDomainProven(tx, { orgId, partnerId: null }, domain),
    );
  const update = (id: string, row: object) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx('sso_domains').where({ id }).update(row));
  /** Creates a domain and publishes its record. */
  const publish = async (who: Person, domain: string) => {
    const { status, body } = await create(who, { domain });
    expect(status, JSON.stringify(body)).to.equal(201);
    dns.setTxt(body.record.name, [[body.record.value]]);
    return body;
  };
  const publishAndVerify = async (who: Person, domain: string) => {
    const created = await publish(who, domain);
    expect((await verify(who, created.id)).status).to.equal(200);
    return created;
  };
  const daily = () =>
    checkDomains({
      db: app.server.database.pool,
      audit: { record: async () => {}, recordAll: async () => {}, committed: () => {} },
      txtRecords: createTxtLookup({ nameServers: [dns.address], limitMs: 300 }),
      log: quietLog,
    });

  it('are proved by a TXT record with a random token', async () => {
    const created = await create(orgAdmin, { domain: 'München-GmbH.DE' });
    expect(created.status).to.equal(201);
    const { id, record } = created.body;
    expect(created.body).to.deep.include({
      orgId: tenant.orgId,
      domain: 'xn--mnchen-gmbh-thb.de',
      status: 'pending',
      verifiedAt: null,
      failingSince: null,
    });
    expect(record.name).to.equal('_muster-verification.xn--mnchen-gmbh-thb.de');
    expect(record.value).to.match(/^muster-verification=[\w-]{43}$/);
    expect(created.body).not.to.have.property('token');

    const early = await verify(orgAdmin, id);
    expect([early.status, early.body.error]).to.deep.equal([
      409,
      `No TXT record at ${record.name} has the value that this domain needs. A new record can take an hour to become visible.`,
    ]);
    dns.setTxt(record.name, [['v=spf1 -all'], [`${record.value}x`], [record.value.slice(0, -1)]]);
    expect((await verify(orgAdmin, id)).status).to.equal(409);
    expect(await proven(tenant.orgId, 'münchen-gmbh.de')).to.equal(false);

    // One record of several strings, among others.
    dns.setTxt(record.name, [['v=spf1 -all'], [record.value.slice(0, 9), record.value.slice(9)]]);
    const done = await verify(orgAdmin, id);
    expect([done.status, done.body.status]).to.deep.equal([200, 'verified']);
    expect(done.body.verifiedAt).to.be.a('string');
    expect(await proven(tenant.orgId, 'MÜNCHEN-GMBH.de')).to.equal(true);
    expect(await proven(rival.orgId, 'münchen-gmbh.de')).to.equal(false);

    const deleted = await app.call('DELETE', `/sso/domains/${id}`, { token: orgAdmin.token });
    expect(deleted.body).to.deep.equal({ success: true });
    expect(await proven(tenant.orgId, 'münchen-gmbh.de')).to.equal(false);
    await app.server.chainWriter.flush();
    const actions = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('audit_logs').where({ resource_id: id }).orderBy('timestamp').pluck('action'),
    );
    expect(actions).to.have.members(['sso.domain.create', 'sso.domain.verify', 'sso.domain.delete']);
  });

  it('get another token when they are created again', async () => {
    const first = await create(orgAdmin, { domain: 'again.example' });
    await app.call('DELETE', `/sso/domains/${first.body.id}`, { token: orgAdmin.token });
    const second = await create(orgAdmin, { domain: 'again.example' });
    expect(second.body.record.value).not.to.equal(first.body.record.value);
  });

  for (const [domain, fault] of [
    ['github.io', 'must not be a public suffix, under which anybody can register names'],
    ['co.uk', 'must not be a public suffix, under which anybody can register names'],
    ['127.0.0.1', 'must be a domain, not an IP address'],
    ['localhost', 'must not be localhost'],
    ['intranet', 'must have at least two labels, such as example.com'],
    ['example.com/evil.org', 'must be a domain, such as example.com'],
    ['*.example.com', 'must be a domain, such as example.com'],
    ['', 'must be a domain, such as example.com'],
    ['x'.repeat(300), 'must have at most 253 characters'],
    [`${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.com`, 'must have at most 232'],
  ] as const) {
    it(`refuse ${domain.slice(0, 20)}`, async () => {
      const { status, body } = await create(orgAdmin, { domain });
      expect(status).to.equal(400);
      expect(body.details[0].path).to.equal('body.domain');
      expect(body.details[0].message).to.include(fault);
    });
  }

  it('are inferred for people of an organization, and named by all others', async () => {
    expect((await create(orgAdmin, { domain: 'inferred.example' })).body.orgId).to.equal(tenant.orgId);
    const unnamed = await create(tenant.admin, { domain: 'unnamed.example' });
    expect([unnamed.status, unnamed.body.details[0].path]).to.deep.equal([400, 'body.orgId']);
    const named = await create(tenant.admin, { domain: 'named.example', orgId: tenant.orgId });
    expect([named.status, named.body.orgId]).to.deep.equal([201, tenant.orgId]);
    const twice = await create(orgAdmin, { domain: 'Named.Example' });
    expect([twice.status, twice.body.details[0].path]).to.deep.equal([409, 'body.domain']);
  });

  it('are changed with the permission and a second factor only', async () => {
    const mine = (await create(orgAdmin, { domain: 'rights.example' })).body;
    const viewer = await giveSecondFactor(
      app,
      await buildPerson(app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      }),
    );
    const withoutFactor = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    expect((await app.call('GET', `/sso/domains/${mine.id}`, { token: viewer.token })).status).to.equal(200);
    for (const [who, code] of [
      [viewer, 'FORBIDDEN'],
      [withoutFactor, 'MFA_REQUIRED'],
    ] as const) {
      const answers = [
        await create(who, { domain: 'other.example' }),
        await verify(who, mine.id),
        await app.call('DELETE', `/sso/domains/${mine.id}`, { token: who.token }),
      ];
      for (const { status, body } of answers) {
        expect([status, body.code], body.error).to.deep.equal([403, code]);
      }
    }
  });

  it('are hidden from other tenants', async () => {
    const mine = (await create(orgAdmin, { domain: 'hidden.example' })).body;
    const path = `/sso/domains/${mine.id}`;
    const stranger = { token: rival.admin.token };
    expect((await app.call('GET', path, stranger)).status).to.equal(404);
    expect((await verify(rival.admin, mine.id)).status).to.equal(404);
    expect((await app.call('DELETE', path, stranger)).status).to.equal(404);
    expect((await create(rival.admin, { domain: 'x.example', orgId: tenant.orgId })).status).to.equal(403);
    expect((await app.call('GET', `/sso/domains?orgId=${tenant.orgId}`, stranger)).status).to.equal(403);
    const seen = await app.call('GET', '/sso/domains', stranger);
    expect(seen.body.data.map(({ orgId }: { orgId: string }) => orgId)).not.to.include(tenant.orgId);
    const own = await app.call('GET', '/sso/domains?limit=100', { token: tenant.admin.token });
    expect(own.body.data.map(({ id }: { id: string }) => id)).to.include(mine.id);
    expect(own.body.pagination.total).to.equal(own.body.data.length);
  });

  it('of another organization may be claimed, and are not verified, nor is it said whose they are', async () => {
    await publishAndVerify(orgAdmin, 'taken.example');
    const claim = (await create(rival.admin, { domain: 'taken.example' })).body;
    expect(claim.status).to.equal('pending');
    dns.setTxt(claim.record.name, [[claim.record.value]]);
    const refused = await verify(rival.admin, claim.id);
    expect([refused.status, refused.body.code, refused.body.error]).to.deep.equal([
      409,
      'CONFLICT',
      'Another organization has verified this domain.',
    ]);
    expect(JSON.stringify(refused.body)).not.to.include(tenant.orgId);
  });

  it('are verified for one of two organizations that prove them at once', async () => {
    const [a, b] = [await publish(orgAdmin, 'race.example'), await publish(rival.admin, 'race.example')];
    dns.setTxt(a.record.name, [[a.record.value], [b.record.value]]);
    const answers = await Promise.all([
      ...[1, 2, 3].map(() => verify(orgAdmin, a.id)),
      ...[1, 2, 3].map(() => verify(rival.admin, b.id)),
    ]);
    const statuses = answers.map(({ status }) => status).toSorted((x, y) => x - y);
    expect(statuses).to.deep.equal([200, 200, 200, 409, 409, 409]);
    const owners = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('sso_domains').where({ domain: 'race.example', status: 'verified' }).pluck('org_id'),
    );
    expect(owners).to.have.length(1);
  });

  it('cover their subdomains, except those that another organization has proved', async () => {
    await publishAndVerify(orgAdmin, 'holding.example');
    expect(await proven(tenant.orgId, 'mail.eu.holding.example')).to.equal(true);
    expect(await proven(tenant.orgId, 'otherholding.example')).to.equal(false);
    expect(await proven(tenant.orgId, 'example')).to.equal(false);
    await publishAndVerify(rival.admin, 'eu.holding.example');
    expect(await proven(tenant.orgId, 'mail.eu.holding.example')).to.equal(false);
    expect(await proven(rival.orgId, 'mail.eu.holding.example')).to.equal(true);
    expect(await proven(tenant.orgId, 'us.holding.example')).to.equal(true);
    expect(await proven(rival.orgId, 'holding.example')).to.equal(false);
  });

  it('are refused in time while the name servers do not answer', async () => {
    const mine = await publish(orgAdmin, 'silent.example');
    dns.silent(true);
    const before = testClock.monotonic();
    let answer: Awaited<ReturnType<typeof verify>> | undefined;
    const verifying = verify(orgAdmin, mine.id).then((given) => (answer = given));
    await eventually(
      () => testClock.advance(500),
      () => answer !== undefined,
    );
    const { status, body } = await verifying;
    dns.silent(false);
    expect([status, body.error]).to.deep.equal([
      409,
      'The name servers of silent.example do not answer. Try again later.',
    ]);
    expect(testClock.monotonic() - before).to.be.below(25_000);
    expect((await verify(orgAdmin, mine.id)).status).to.equal(200);
  });

  it('are found among a thousand records, and not in a thousand others', async () => {
    const mine = await publish(orgAdmin, 'crowded.example');
    const others = Array.from({ length: 1000 }, (_, i) => [`record number ${i}`]);
    dns.setTxt(mine.record.name, others);
    expect((await verify(orgAdmin, mine.id)).status).to.equal(409);
    dns.setTxt(mine.record.name, [...others, [mine.record.value]]);
    expect((await verify(orgAdmin, mine.id)).status).to.equal(200);
  });

  it('are limited in number, and so are their look-ups', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const admin = await adminOf(orgId);
    const first = (await create(admin, { domain: 'first.example' })).body;
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(
        `insert into sso_domains (id, org_id, domain, token)
        select gen_random_uuid(), ?, 'many-' || i || '.example', 'x' from generate_series(1, 99) i`,
        [orgId],
      ),
    );
    const beyond = await create(admin, { domain: 'beyond.example' });
    expect([beyond.status, beyond.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
    const answers = await Promise.all(Array.from({ length: 31 }, () => verify(admin, first.id)));
    expect(answers.filter(({ status }) => status === 429)).to.have.length(1);
    // The limit is the organization's own.
    expect((await publishAndVerify(orgAdmin, 'not-limited.example')).status).to.equal('pending');
  });

  describe('day by day', () => {
    const DAY_MS = 86_400_000;
    const row = (id: string) =>
      withSystem(app.server.database.pool, 'test', (tx) => tx('sso_domains').where({ id }).first());

    it('stay verified for a week without their record, and then are pending', async () => {
      const mine = await publishAndVerify(orgAdmin, 'sold.example');
      dns.setTxt(mine.record.name, []);
      await daily();
      const failing = await row(mine.id);
      expect(failing.status).to.equal('verified');
      expect(failing.failing_since).to.be.instanceOf(Date);
      await update(mine.id, { failing_since: new Date(Date.now() - 6 * DAY_MS) });
      await daily();
      expect((await row(mine.id)).status).to.equal('verified');
      expect(await proven(tenant.orgId, 'sold.example')).to.equal(true);
      await update(mine.id, { failing_since: new Date(Date.now() - 7 * DAY_MS) });
      await daily();
      expect(await row(mine.id)).to.deep.include({
        status: 'pending',
        verified_at: null,
        failing_since: null,
      });
      expect(await proven(tenant.orgId, 'sold.example')).to.equal(false);
      // Whoever owns it now can prove it.
      await publishAndVerify(rival.admin, 'sold.example');
    });

    it('are as before when the record is found again', async () => {
      const mine = await publishAndVerify(orgAdmin, 'mended.example');
      await update(mine.id, { failing_since: new Date(Date.now() - 20 * DAY_MS) });
      await daily();
      expect(await row(mine.id)).to.deep.include({ status: 'verified', failing_since: null });
    });

    it('outlive a long outage of their name servers, but not one without end', async () => {
      const mine = await publishAndVerify(orgAdmin, 'outage.example');
      dns.silent(true);
      try {
        await update(mine.id, { failing_since: new Date(Date.now() - 29 * DAY_MS) });
        await daily();
        expect((await row(mine.id)).status).to.equal('verified');
        await update(mine.id, { failing_since: new Date(Date.now() - 30 * DAY_MS) });
        await daily();
        expect((await row(mine.id)).status).to.equal('pending');
      } finally {
        dns.silent(false);
      }
    }).timeout(120_000);

    it('are given up at once by organizations that were deleted', async () => {
      const orgId = await buildOrganization(app, tenant.partnerId);
      const mine = await publishAndVerify(await adminOf(orgId), 'deleted.example');
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx('organizations').where({ id: orgId }).update({ deleted_at: new Date() }),
      );
      await daily();
      expect((await row(mine.id)).status).to.equal('pending');
    });

    it('are all checked, however many there are', async () => {
      const orgId = await buildOrganization(app, tenant.partnerId);
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(
          `insert into sso_domains (id, org_id, domain, token, status, verified_at)
          select gen_random_uuid(), ?, 'fleet-' || i || '.example', 'x', 'verified', now() from generate_series(1, 45) i`,
          [orgId],
        ),
      );
      await daily();
      const failing = await withSystem(app.server.database.pool, 'test', (tx) =>
        tx('sso_domains').where({ org_id: orgId }).whereNotNull('failing_since').pluck('id'),
      );
      expect(failing).to.have.length(45);
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx('sso_domains').where({ org_id: orgId }).delete(),
      );
    });

    it('are checked although one of them fails, and the lapse is in the trail', async () => {
      const [broken, mine] = [
        await publishAndVerify(orgAdmin, 'broken.example'),
        await publishAndVerify(orgAdmin, 'lapsing.example'),
      ];
      dns.setTxt(mine.record.name, []);
      await update(mine.id, { failing_since: new Date(Date.now() - 8 * DAY_MS) });
      const recorded: unknown[] = [];
      const result = await checkDomains({
        db: app.server.database.pool,
        audit: {
          record: async (_tx, entry) => void recorded.push(entry),
          recordAll: async () => {},
          committed: () => {},
        },
        txtRecords: (name) => {
          if (name === broken.record.name) throw new Error('on purpose');
          return createTxtLookup({ nameServers: [dns.address] })(name);
        },
        log: quietLog,
      });
      expect(result.lapsed).to.equal(1);
      expect((await row(broken.id)).status).to.equal('verified');
      expect(recorded).to.have.length(1);
      expect(recorded[0]).to.deep.include({
        action: 'sso.domain.lapse',
        resourceId: mine.id,
        resourceName: 'lapsing.example',
        details: { reason: 'record_absent' },
        actor: { kind: 'system', orgId: tenant.orgId, partnerId: tenant.partnerId },
      });
    });
  });
});
