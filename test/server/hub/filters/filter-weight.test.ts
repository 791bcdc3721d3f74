import { expect } from 'chai';
import { AppError } from '../../../../src/platform/errors.ts';
import { FilterWeight } from '../../../../src/hub/filters/compiled-filters.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const codeOf = (work: () => void): string => {
  try {
    work();
    return 'taken';
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
};

describe('the weight of live filters', () => {
  it('is bounded for a person and for a node, where the same conditions count once', () => {
    const weight = new FilterWeight({ ofPerson: 10, ofNode: 15 });
    weight.reserve('a', 10, true);
    expect(codeOf(() => weight.reserve('a', 1, true))).to.equal('rate_limited');
    // What was refused has taken nothing.
    expect(codeOf(() => weight.reserve('b', 5, true))).to.equal('taken');
    expect(codeOf(() => weight.reserve('c', 1, true))).to.equal('unavailable');
    expect(codeOf(() => weight.reserve('c', 10, false))).to.equal('taken');
    weight.release('a', 10, false);
    expect(codeOf(() => weight.reserve('d', 1, true))).to.equal('unavailable');
    weight.release('c', 10, true);
    expect(codeOf(() => weight.reserve('d', 10, true))).to.equal('taken');
  });

  describe('for one person', () => {
    let app: TestApp;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    let clients: DashboardClient[];
    before(async () => {
      app = await sharedTestApp();
      tenant = await buildTenant(app);
    });
    after(async () => app.close());
    beforeEach(() => {
      clients = [];
    });
    afterEach(() => {
      for (const client of clients) client.close();
    });
    const connected = async () => {
      const client = await connectDashboard(app, tenant.admin.token);
      clients.push(client);
      return client;
    };

    it('are 30,000 conditions in live filters', async () => {
      const conditions = Array.from({ length: 9_000 }, (_, n) => ({
        field: 'hostname',
        operator: 'equals',
        value: `h${n}`,
      }));
      const { body } = await app.call('POST', '/filters', {
        token: tenant.admin.token,
        body: { orgId: tenant.orgId, name: 'many', conditions: { operator: 'OR', conditions } },
      });
      const client = await connected();
      for (let n = 0; n < 3; n++) {
        expect((await client.send('devices:subscribe', { filterId: body.id })).ok).to.equal(true);
      }
      const refused = await client.send('devices:subscribe', { filterId: body.id });
      expect(refused.error.code).to.equal('RATE_LIMITED');
    });
  });
});
