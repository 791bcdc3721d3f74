import { expect } from 'chai';
import { buildDevice, buildOrganization, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('columns of many devices', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let deviceId: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    ({ deviceId } = await buildDevice(app, tenant.orgId, {
      hardware: { model: 'OptiPlex', serialNumber: 'S-1', cpuCores: 8 },
    }));
    await asOwner(
      app.database.ownerUrl,
      `update devices set last_user = 'ada', tags = '{server,backup}', custom_fields = $2 where id = $1`,
      [deviceId, { room: '12', floor: 3, leased: false, keys: ['a', 'b'], notes: 'x'.repeat(900) }],
    );
  });
  after(async () => app.close());

  const read = async (query: string, token = tenant.admin.token) => {
    const { status, body } = await app.call('GET', `/devices/columns?${query}`, { token });
    expect(status, JSON.stringify(body)).to.equal(200);
    return body;
  };

  it('are those that were asked for, and leave out what a device does not have', async () => {
    const { data, nextAfter } = await read(
      'columns=lastUser,model,serialNumber,cpuCores,gpuModel,tags,autoUpdate&customFields=room,floor,leased,keys,none',
    );
    expect(nextAfter).to.equal(null);
    expect(data).to.deep.equal([
      {
        deviceId,
        values: {
          lastUser: 'ada',
          model: 'OptiPlex',
          serialNumber: 'S-1',
          cpuCores: 8,
          tags: 'server, backup',
          autoUpdate: true,
        },
        customFields: { room: '12', floor: 3, leased: false, keys: 'a, b' },
      },
    ]);
  });

  it('are cut where they are long, and say so', async () => {
    const [{ customFields }] = (await read('customFields=notes')).data;
    expect(customFields.notes).to.equal(`${'x'.repeat(200)}…`);
  });

  it('of other tenants are not there, and neither are decommissioned devices', async () => {
    const other = await buildTenant(app);
    expect((await read('columns=lastUser', other.admin.token)).data).to.deep.equal([]);
    const foreign = await app.call('GET', `/devices/columns?columns=tags&orgId=${tenant.orgId}`, {
      token: other.admin.token,
    });
    expect(foreign.status).to.equal(403);
    const gone = await buildDevice(app, tenant.orgId);
    await app.call('DELETE', `/devices/${gone.deviceId}`, { token: tenant.admin.token });
    const ids = (await read('columns=tags')).data.map((row: { deviceId: string }) => row.deviceId);
    expect(ids).to.deep.equal([deviceId]);
  });

  it('are read page by page, each device once, in the scope that was asked for', async () => {
    const many = await buildTenant(app);
    const elsewhere = await buildOrganization(app, many.partnerId);
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select new_row_id(), $1, $2, 'M-' || n, 'linux', 'Debian ' || n, 'x64', '1.0.0', now() from generate_series(1, 25) n`,
      [many.orgId, many.siteId],
    );
    await buildDevice(app, elsewhere);
    const seen: string[] = [];
    let after: string | null = '';
    while (after !== null) {
      const page = await read(
        `columns=osVersion&limit=10&orgId=${many.orgId}&siteId=${many.siteId}${after === '' ? '' : `&after=${after}`}`,
        many.admin.token,
      );
      seen.push(...page.data.map(({ values }: { values: { osVersion: string } }) => values.osVersion));
      after = page.nextAfter;
    }
    expect(seen).to.have.length(25);
    expect(new Set(seen)).to.have.property('size', 25);
    expect((await read('columns=osVersion', many.admin.token)).data).to.have.length(26);
  });

  it('that do not exist are refused by name', async () => {
    const { status, body } = await app.call('GET', '/devices/columns?columns=osVersion,password&limit=2000', {
      token: tenant.admin.token,
    });
    expect(status).to.equal(400);
    expect(body.details.map(({ path }: { path: string }) => path)).to.deep.equal([
      'query.columns.1',
      'query.limit',
    ]);
  });
});
