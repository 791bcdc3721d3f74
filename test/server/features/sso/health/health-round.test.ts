import { expect } from 'chai';
import { X509Certificate } from 'node:crypto';
import { checkActiveProviders, type RoundParts } from '../../../../../src/features/sso/health.work.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildOrganization, buildPartner } from '../../../../support/factories.ts';
import { type HttpsServer, startHttpsServer } from '../../../../support/https-server.ts';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import { recordingLog } from '../../../../support/quiet-log.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { testClock } from '../../../../support/test-clock.ts';
import { buildSsoTenant, requestsOf, storedProvider } from '../administration/administration-support.ts';
import { createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';
import { alertsOf, fetchFor, partsOf, trailOf } from './health-support.ts';

const DAY_MS = 86_400_000;
/** With a provider that hangs. */
const PATIENCE_MS = 3000;

describe('the regular check of providers', function () {
  this.timeout(120_000);
  let app: TestApp;
  let idp: OidcProvider;
  const { log, lines } = recordingLog();
  const outcomes: string[] = [];
  before(async () => {
    app = await createSsoApp();
    idp = await startOidcProvider();
  });
  after(async () => {
    await idp.stop();
    await app.close();
  });
  beforeEach(() => query(app, 'delete from sso_providers'));
  afterEach(async () => {
    await idp.stop();
    await idp.start();
    outcomes.length = 0;
    lines.length = 0;
  });

  const parts = (): RoundParts => partsOf(app, log, outcomes);
  const round = (now = new Date()) => checkActiveProviders(parts(), { now });
  const oidc = (owner: { org_id: string } | { partner_id: string }, row = {}) =>
    insertProvider(app, owner, { type: 'oidc', issuer: idp.issuer, ...row });
  const alerts = (orgId: string) => alertsOf(app, orgId);
  const trail = (providerId: string) => trailOf(app, providerId);
  const failuresOf = async (id: string) => (await storedProvider(app, id))['discovery_failures'];

  it('raises one alert at the third failure in a row, and ends it when the provider works again', async () => {
    const { orgId } = await buildSsoTenant(app);
    const id = await oidc({ org_id: orgId });
    expect(await round()).to.deep.equal({ checked: 1, failing: 0, skipped: 0 });
    const untouched = await storedProvider(app, id);
    await idp.stop();
    for (let failures = 1; failures <= 2; failures++) {
      expect(await round()).to.deep.equal({ checked: 1, failing: 1, skipped: 0 });
      expect(await failuresOf(id)).to.equal(failures);
    }
    expect(await alerts(orgId)).to.deep.equal([]);
    await round();
    await round();
    expect(await alerts(orgId)).to.deep.equal([
      {
        kind: 'sso_provider_failing',
        severity: 'high',
        status: 'active',
        message: 'The identity provider could not be reached.',
        details: { providerId: id },
      },
    ]);
    expect(await trail(id)).to.deep.equal(['sso.provider.failing failure']);
    await idp.start();
    await round();
    const [alert] = await alerts(orgId);
    expect(alert).to.deep.include({ status: 'resolved' });
    expect(await trail(id)).to.deep.equal(['sso.provider.failing failure', 'sso.provider.recovered success']);
    // A check is no change of the provider: sign-ins under way go on.
    expect(await storedProvider(app, id)).to.deep.equal(untouched);
    expect(outcomes).to.deep.equal(['oidc ok', ...Array.from({ length: 4 }, () => 'oidc failed'), 'oidc ok']);
  });

  it('counts failures in a row alone', async () => {
    const { orgId } = await buildSsoTenant(app);
    const id = await oidc({ org_id: orgId });
    for (const works of [false, false, true, false, false]) {
      await (works ? idp.start() : idp.stop());
      await round();
    }
    expect([await failuresOf(id), await alerts(orgId)]).to.deep.equal([2, []]);
  });

  it('is critical if people cannot sign in without the provider', async () => {
    const { orgId } = await buildSsoTenant(app);
    await oidc({ org_id: orgId }, { enforce_sso: true, discovery_failures: 2 });
    await idp.stop();
    await round();
    expect((await alerts(orgId))[0]).to.deep.include({ severity: 'critical' });
  });

  it('leaves failures of a partner’s provider in the trail and the log, since no organization has the alert', async () => {
    const { partnerId, orgId } = await buildSsoTenant(app);
    const id = await oidc({ partner_id: partnerId });
    await idp.stop();
    for (let i = 0; i < 4; i++) await round();
    expect(await trail(id)).to.deep.equal(['sso.provider.failing failure']);
    expect(await alerts(orgId)).to.deep.equal([]);
    const warnings = lines.filter(
      ({ event, providerId }) => event === 'sso.provider_failing' && providerId === id,
    );
    expect(warnings.map(({ failures }) => failures)).to.deep.equal([1, 2, 3, 4]);
  });

  it('keeps the alert while another provider of the organization fails', async () => {
    const { orgId } = await buildSsoTenant(app);
    await oidc({ org_id: orgId }, { issuer: 'https://10.0.0.1', discovery_failures: 2 });
    await oidc({ org_id: orgId }, { discovery_failures: 3 });
    await round();
    expect((await alerts(orgId))[0]).to.deep.include({ status: 'active' });
  });

  it('begins anew, and ends the alert, when a person changes, deactivates or deletes the provider', async () => {
    for (const how of ['change', 'deactivate', 'delete'] as const) {
      const { orgId, orgAdmin } = await buildSsoTenant(app);
      const id = await oidc({ org_id: orgId }, { issuer: 'https://10.0.0.1', discovery_failures: 2 });
      await round();
      expect((await alerts(orgId))[0]).to.deep.include({ status: 'active' });
      const { change, status, remove } = requestsOf(app, orgAdmin);
      const answer = await {
        change: () => change(id, { issuer: idp.issuer, defaultRoleId: null }),
        deactivate: () => status(id, 'inactive'),
        delete: () => remove(id),
      }[how]();
      expect(answer.status, how).to.equal(200);
      expect((await alerts(orgId))[0], how).to.deep.include({ status: 'resolved' });
      if (how !== 'delete') expect(await failuresOf(id), how).to.equal(0);
    }
  });

  it('counts nothing of a provider that was changed during its check', async () => {
    const { orgId } = await buildSsoTenant(app);
    const id = await oidc({ org_id: orgId }, { discovery_failures: 2 });
    const { ssoFetch } = parts();
    const changing: RoundParts = {
      ...parts(),
      ssoFetch: {
        assertPermitted: (url) => ssoFetch.assertPermitted(url),
        async fetch(url, request) {
          await query(app, 'update sso_providers set config_version = config_version + 1 where id = ?', [id]);
          return ssoFetch.fetch(`${url}/not-there`, request);
        },
      },
    };
    expect(await checkActiveProviders(changing, { now: new Date() })).to.deep.equal({
      checked: 1,
      failing: 1,
      skipped: 0,
    });
    expect([await failuresOf(id), await alerts(orgId), await trail(id)]).to.deep.equal([2, [], []]);
  });

  it('warns fourteen days before the last certificate ends', async () => {
    const { orgId } = await buildSsoTenant(app);
    const certificate = samlFile('expired.pem');
    const id = await insertProvider(app, { org_id: orgId }, { certificate, discovery_failures: 2 });
    const end = Date.parse(new X509Certificate(certificate).validTo);
    expect(await round(new Date(end - 15 * DAY_MS))).to.deep.equal({ checked: 1, failing: 0, skipped: 0 });
    expect(await failuresOf(id)).to.equal(0);
    await query(app, 'update sso_providers set discovery_failures = 2');
    expect(await round(new Date(end - 13 * DAY_MS))).to.deep.equal({ checked: 1, failing: 1, skipped: 0 });
    const day = new Date(end).toISOString().slice(0, 10);
    expect((await alerts(orgId))[0]).to.deep.include({
      message: `The certificate of the identity provider expires on ${day}.`,
    });
    await round(new Date(end + DAY_MS));
    expect((await alerts(orgId))[0]).to.deep.include({
      message: `The certificate of the identity provider has expired on ${day}.`,
    });
    await query(app, 'update sso_providers set certificate = ?', [certificate + samlFile('next.pem')]);
    await round(new Date(end - 13 * DAY_MS));
    expect((await alerts(orgId))[0]).to.deep.include({ status: 'resolved' });
  });

  it('looks at active providers of tenants that are there, and at no others', async () => {
    const { orgId, partnerId } = await buildSsoTenant(app);
    const gone = await buildOrganization(app, partnerId, { deleted_at: new Date() });
    const suspended = await buildPartner(app, { status: 'suspended' });
    await oidc({ org_id: orgId }, { status: 'inactive' });
    await oidc({ org_id: orgId }, { status: 'testing' });
    await oidc({ org_id: gone });
    await oidc({ partner_id: suspended });
    await oidc({ org_id: await buildOrganization(app, suspended) });
    expect(await round()).to.deep.equal({ checked: 0, failing: 0, skipped: 0 });
  });

  describe('of many', () => {
    const open: HttpsServer[] = [];
    afterEach(async () => {
      testClock.run();
      for (const server of open.splice(0)) await server.stop();
    });

    it('is kept from none by one that hangs, drips or breaks, and asks few at a time', async () => {
      let hung = 0;
      const hanging = await startHttpsServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).write('{');
        hung++;
      });
      open.push(hanging);
      const hostile = await buildSsoTenant(app);
      const bad: string[] = [];
      for (let i = 0; i < 5; i++) {
        bad.push(await oidc({ org_id: hostile.orgId }, { issuer: `https://127.0.0.1:${hanging.port}` }));
      }
      const broken = await oidc({ org_id: hostile.orgId }, { issuer: 'not a URL {' });
      const good: string[] = [];
      for (let i = 0; i < 30; i++) {
        const orgId = await buildOrganization(app, hostile.partnerId);
        good.push(await oidc({ org_id: orgId }, { discovery_failures: 1 }));
      }
      const { ssoFetch, ...others } = parts();
      const impatient = fetchFor(log, PATIENCE_MS);
      // However slow the machine is, those that hang are given up only when no other can go on.
      testClock.stop();
      // Counted here, because the server learns late that somebody has given up.
      let [present, most] = [0, 0];
      const checking = checkActiveProviders(
        {
          ...others,
          ssoFetch: {
            assertPermitted: (url) => ssoFetch.assertPermitted(url),
            async fetch(url, request) {
              if (!url.includes(`:${hanging.port}/`)) return ssoFetch.fetch(url, request);
              most = Math.max(most, ++present);
              try {
                return await impatient.fetch(url, request);
              } finally {
                present--;
              }
            },
          },
        },
        { now: new Date() },
      );
      // Of one partner are checked two at a time.
      for (const count of [2, 4, 5]) {
        await eventually(
          () => hung,
          (requests) => requests === count,
        );
        await testClock.advance(PATIENCE_MS);
        testClock.jump(-PATIENCE_MS);
      }
      expect(await checking).to.deep.equal({ checked: 36, failing: 6, skipped: 0 });
      expect(most).to.equal(2);
      for (const id of [...bad, broken]) expect(await failuresOf(id)).to.equal(1);
      for (const id of good) expect(await failuresOf(id)).to.equal(0);
    });

    it('ends in time, and has seen those of everybody else by then', async () => {
      const hostile = await buildSsoTenant(app);
      for (let i = 0; i < 20; i++) {
        const orgId = await buildOrganization(app, hostile.partnerId);
        await oidc({ org_id: orgId }, { issuer: 'https://127.0.0.1:9/hangs' });
      }
      const good: string[] = [];
      for (let i = 0; i < 10; i++) {
        const { orgId } = await buildSsoTenant(app);
        good.push(await oidc({ org_id: orgId }, { discovery_failures: 1 }));
      }
      const { ssoFetch, ...others } = parts();
      const end = new AbortController();
      const ended = new Promise<void>((resolve) => {
        end.signal.addEventListener('abort', () => resolve());
      });
      const result = await checkActiveProviders(
        {
          ...others,
          onChecked(_type, outcome) {
            outcomes.push(outcome);
            if (outcomes.filter((one) => one === 'ok').length === good.length) end.abort();
          },
          ssoFetch: {
            assertPermitted: (url) => ssoFetch.assertPermitted(url),
            async fetch(url, request) {
              // It hangs for as long as it takes.
              if (url.includes('hangs')) await ended;
              return ssoFetch.fetch(url, request);
            },
          },
        },
        { now: new Date(), signal: end.signal },
      );
      expect(result).to.deep.equal({ checked: 12, failing: 2, skipped: 18 });
      for (const id of good) expect(await failuresOf(id)).to.equal(0);
    });

    it('leaves a place of a partner to those that worked the last time', async () => {
      const { orgId, partnerId } = await buildSsoTenant(app);
      for (let i = 0; i < 6; i++) {
        const organization = await buildOrganization(app, partnerId);
        await oidc({ org_id: organization }, { issuer: 'https://127.0.0.1:9/hangs', discovery_failures: 1 });
      }
      await oidc({ org_id: orgId });
      const { ssoFetch, ...others } = parts();
      const end = new AbortController();
      const ended = new Promise<void>((resolve) => {
        end.signal.addEventListener('abort', () => resolve());
      });
      const result = await checkActiveProviders(
        {
          ...others,
          onChecked: (_type, outcome) => (outcome === 'ok' ? end.abort() : undefined),
          ssoFetch: {
            assertPermitted: (url) => ssoFetch.assertPermitted(url),
            async fetch(url, request) {
              if (url.includes('hangs')) await ended;
              return ssoFetch.fetch(url, request);
            },
          },
        },
        { now: new Date(), signal: end.signal },
      );
      expect(result).to.deep.equal({ checked: 2, failing: 1, skipped: 5 });
    });

    it('goes on if one cannot be checked for a reason of ours', async () => {
      const { orgId, partnerId } = await buildSsoTenant(app);
      const other = await buildOrganization(app, partnerId);
      const first = await oidc({ org_id: orgId }, { issuer: 'https://127.0.0.1:9/first' });
      const second = await oidc({ org_id: other }, { discovery_failures: 1 });
      const { ssoFetch } = parts();
      const result = await checkActiveProviders(
        {
          ...parts(),
          ssoFetch: {
            assertPermitted: (url) => ssoFetch.assertPermitted(url),
            async fetch(url, request) {
              if (url.includes('first')) throw new Error('a fault of ours');
              return ssoFetch.fetch(url, request);
            },
          },
        },
        { now: new Date() },
      );
      expect(result).to.deep.equal({ checked: 2, failing: 1, skipped: 0 });
      expect([await failuresOf(first), await failuresOf(second)]).to.deep.equal([0, 0]);
      expect(
        lines.some(({ event, level }) => event === 'sso.provider_check_broken' && level === 'error'),
      ).to.equal(true);
    });
  });
});
