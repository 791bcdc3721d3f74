import { expect } from 'chai';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const NFC = '\u00e9cole';
const NFD = 'e\u0301cole';

describe('names in whichever form of Unicode', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const call = (method: 'GET' | 'POST' | 'PATCH', path: string, body?: object) =>
    app.call(method, path, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  const get = (path: string, query: Record<string, string>) =>
    call('GET', `${path}?${new URLSearchParams(query).toString()}`);

  it('are found by either, as host names, display names, tags, groups and people', async () => {
    for (const [place, stored] of [NFC, NFD].entries()) {
      const { deviceId } = await buildDevice(app, tenant.orgId, { hostname: `${stored}-${place}` });
      const changed = await call('PATCH', `/devices/${deviceId}`, {
        displayName: `Salle ${stored}`,
        tags: [stored],
      });
      expect(changed.status, JSON.stringify(changed.body)).to.equal(200);
      expect(changed.body.tags).to.deep.equal([NFC]);
    }
    const group = { name: NFD, orgId: tenant.orgId, type: 'static' };
    expect((await call('POST', '/groups', group)).status).to.equal(201);
    expect((await call('POST', '/groups', { ...group, name: NFC })).status).to.equal(409);
    expect((await call('PATCH', '/users/me', { name: `Zo\u00eb ${NFD}` })).status).to.equal(200);
    for (const asked of [NFC, NFD]) {
      const upper = asked.toUpperCase();
      const results = (await get('/search', { q: upper })).body.results as { type: string }[];
      expect(results.map(({ type }) => type).sort()).to.deep.equal(['devices', 'devices', 'groups', 'users']);
      for (const query of [{ search: upper }, { tags: asked }] as Record<string, string>[]) {
        expect((await get('/devices', query)).body.data, JSON.stringify(query)).to.have.length(2);
      }
      expect((await get('/users', { search: upper })).body.data).to.have.length(1);
      for (const [field, operator, value] of [
        ['hostname', 'contains', upper],
        ['hostname', 'matches', `^${asked}`],
        ['displayName', 'in', [`Salle ${asked}`]],
        ['tags', 'hasAny', [asked]],
        ['tags', 'contains', upper],
      ]) {
        const conditions = { operator: 'AND', conditions: [{ field, operator, value }] };
        const preview = await call('POST', '/filters/preview', { conditions });
        expect(preview.body.data?.totalCount, JSON.stringify([preview.body, field, operator])).to.equal(2);
      }
    }
  });

  it('are refused if they cannot be stored, and measured in the form that is', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const rename = async (displayName: string) =>
      (await call('PATCH', `/devices/${deviceId}`, { displayName })).status;
    expect(await rename('e\u0301'.repeat(255))).to.equal(200);
    for (const name of ['e\u0301'.repeat(256), '\ud800', 'a\0', `a${'\u0301\u0323'.repeat(10_000)}`]) {
      expect(await rename(name)).to.equal(400);
    }
  });
});
