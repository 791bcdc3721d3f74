import { expect } from 'chai';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { registerVersions } from '../../../support/releases/registered-versions.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const WINDOW = { days: ['fri', 'sat'], start: '22:00', end: '04:00' };

describe('the settings of agent updates', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let systemToken: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    await registerVersions(app, '1.4.0', '1.4.0-rc.2', '1.0.0');
    systemToken = (await buildPerson(app, { scope: 'system' })).token;
  });
  after(async () => app.close());

  const patch = (path: string, agentUpdates: unknown, token = tenant.admin.token) =>
    app.call('PATCH', path, { token, body: { settings: { agentUpdates } } });

  /** The routes that take settings, each with the caller who may send them. */
  const routes = (): [method: string, path: string, token: string, more: object][] => [
    ['PATCH', '/orgs/partners/me', tenant.admin.token, {}],
    ['PATCH', `/orgs/partners/${tenant.partnerId}`, systemToken, {}],
    ['POST', '/orgs/partners', systemToken, { name: 'New', slug: `new-${tenant.orgId}` }],
    ['PATCH', `/orgs/organizations/${tenant.orgId}`, tenant.admin.token, {}],
    ['POST', '/orgs/organizations', tenant.admin.token, { name: 'New', slug: `new-${tenant.orgId}` }],
  ];

  const FAULTS: [value: unknown, path: string, rule: RegExp][] = [
    ['latest', '', /object/],
    [{ pin: {} }, '', /pin/],
    [{ pins: { helper: 'latest' } }, '.pins', /helper/],
    [{ pins: { agent: 'newest' } }, '.pins.agent', /must be "latest" or a version/],
    [{ pins: { agent: 'v1.2.0' } }, '.pins.agent', /must be "latest" or a version/],
    [{ pins: { agent: '1.2' } }, '.pins.agent', /must be "latest" or a version/],
    [{ pins: { watchdog: '1.2.0+build' } }, '.pins.watchdog', /must be "latest" or a version/],
    [{ pins: { watchdog: '1.2.0/../../x' } }, '.pins.watchdog', /must be "latest" or a version/],
    [{ pins: { watchdog: 1 } }, '.pins.watchdog', /string/],
    [
      { pins: { agent: '1.4.1' } },
      '.pins.agent',
      /^must be "latest" or a registered version: (.+, )?1\.4\.0, (.+, )?1\.4\.0-rc\.2, (.+, )?1\.0\.0/,
    ],
    [{ pins: { agent: 'latest', watchdog: '9.9.9' } }, '.pins.watchdog', /registered version/],
    [{ policy: 'always' }, '.policy', /auto/],
    [{ maintenanceWindow: { days: ['fri'], start: '22:00' } }, '.maintenanceWindow.end', /string/],
    [{ maintenanceWindow: { ...WINDOW, days: [] } }, '.maintenanceWindow.days', />=1|at least/],
    [{ maintenanceWindow: { ...WINDOW, days: ['friday'] } }, '.maintenanceWindow.days.0', /fri/],
    [{ maintenanceWindow: { ...WINDOW, days: ['fri', 'fri'] } }, '.maintenanceWindow.days', /twice/],
    [{ maintenanceWindow: { ...WINDOW, start: '25:00' } }, '.maintenanceWindow.start', /from 00:00 to 23:59/],
    [{ maintenanceWindow: { ...WINDOW, end: '24:00' } }, '.maintenanceWindow.end', /from 00:00 to 23:59/],
    [{ maintenanceWindow: { ...WINDOW, end: '4:00' } }, '.maintenanceWindow.end', /from 00:00 to 23:59/],
    [{ maintenanceWindow: { ...WINDOW, end: '22:00' } }, '.maintenanceWindow.end', /differ from start/],
    [{ maintenanceWindow: { ...WINDOW, timezone: 'UTC' } }, '.maintenanceWindow', /timezone/],
  ];

  for (const [value, path, rule] of FAULTS) {
    it(`are refused by every route, with the name of the field: ${JSON.stringify(value)}`, async () => {
      for (const [method, route, token, more] of routes()) {
        const { status, body } = await app.call(method, route, {
          token,
          body: { ...more, settings: { agentUpdates: value } },
        });
        expect(status, `${method} ${route}`).to.equal(400);
        expect(body.details, `${method} ${route}`).to.have.length(1);
        expect(body.details[0].path).to.equal(`body.settings.agentUpdates${path}`);
        expect(body.details[0].message).to.match(rule);
      }
    });
  }

  it('are kept as they were sent, by every route', async () => {
    const agentUpdates = {
      pins: { agent: '1.4.0-rc.2', watchdog: 'latest' },
      policy: 'staged',
      maintenanceWindow: WINDOW,
    };
    for (const [method, route, token, more] of routes()) {
      const { status, body } = await app.call(method, route, {
        token,
        body: { ...more, settings: { agentUpdates } },
      });
      expect(status, `${method} ${route}`).to.equal(method === 'POST' ? 201 : 200);
      expect(body.settings.agentUpdates, `${method} ${route}`).to.deep.equal(agentUpdates);
    }
  });

  it('of a partner are merged field by field, a window is replaced whole, and null takes a field out', async () => {
    await patch('/orgs/partners/me', null);
    await patch('/orgs/partners/me', { pins: { agent: '1.4.0' }, maintenanceWindow: WINDOW });
    const other = { days: ['mon'], start: '01:00', end: '02:00' };
    const merged = await patch('/orgs/partners/me', {
      pins: { watchdog: '1.0.0' },
      maintenanceWindow: other,
    });
    expect(merged.body.settings.agentUpdates).to.deep.equal({
      pins: { agent: '1.4.0', watchdog: '1.0.0' },
      maintenanceWindow: other,
    });
    const emptied = await patch('/orgs/partners/me', { pins: { agent: null }, maintenanceWindow: null });
    expect(emptied.body.settings.agentUpdates).to.deep.equal({ pins: { watchdog: '1.0.0' } });
  });

  it('leave the other settings of an organization free', async () => {
    const settings = { theme: 'dark', nested: { agentUpdates: 'anything' } };
    const { status, body } = await app.call('PATCH', `/orgs/organizations/${tenant.orgId}`, {
      token: tenant.admin.token,
      body: { settings },
    });
    expect([status, body.settings]).to.deep.equal([200, settings]);
  });
});
