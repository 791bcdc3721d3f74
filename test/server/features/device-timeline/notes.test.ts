import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('notes about a device', function () {
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

  type Token = Pick<typeof tenant.admin, 'token'>;
  const at = (id?: string) => `/devices/${device.deviceId}/notes${id === undefined ? '' : `/${id}`}`;
  const add = (body: unknown, { token }: Token = tenant.technician) =>
    app.call('POST', at(), { token, body });
  const change = (id: string, body: unknown, { token }: Token = tenant.technician) =>
    app.call('PATCH', at(id), { token, body });
  const remove = (id: string, { token }: Token = tenant.technician) => app.call('DELETE', at(id), { token });
  const list = async (query = '') =>
    (await app.call('GET', `${at()}${query}`, { token: tenant.technician.token })).body;

  it('have an author, are changed by the author, and list pinned ones first', async () => {
    const first = (await add({ text: 'Call Ana first.', isPinned: true })).body;
    expect(first).to.deep.include({
      text: 'Call Ana first.',
      isPinned: true,
      createdBy: tenant.technician.id,
      editedAt: null,
    });
    expect(first.authorName).to.match(/^Person \d+$/);
    const second = (await add({ text: 'The printer is on the second floor.\nRoom 4' })).body;
    const texts = async (query?: string) =>
      (await list(query)).data.map(({ text }: { text: string }) => text);
    expect(await texts()).to.deep.equal([first.text, second.text]);
    expect(await texts('?pinned=true')).to.deep.equal([first.text]);
    const changed = await change(first.id, { text: 'Call Rui first.', isPinned: false });
    expect(changed.body).to.include({ text: 'Call Rui first.', isPinned: false });
    expect(changed.body.editedAt).to.be.a('string');
    expect(await texts()).to.deep.equal([second.text, 'Call Rui first.']);
    expect((await remove(second.id)).status).to.equal(200);
    expect(await texts()).to.deep.equal(['Call Rui first.']);
  });

  it('keep the text of their author: others pin them, and delete them with the right to delete devices', async () => {
    const { id } = (await add({ text: 'Mine' })).body;
    const { body: role } = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'Writer', scope: 'partner', permissions: ['devices:read', 'devices:write'] },
    });
    const { partnerId } = tenant;
    const colleague = await buildPerson(app, { scope: 'partner', partnerId, role: role.id });
    const refused = await change(id, { text: 'Theirs' }, colleague);
    expect(refused.status).to.equal(403);
    expect(refused.body.error).to.contain('Only the author');
    expect((await change(id, { isPinned: true }, colleague)).body).to.include({
      text: 'Mine',
      isPinned: true,
      editedAt: null,
    });
    expect((await remove(id, colleague)).status).to.equal(403);
    expect((await remove(id, tenant.admin)).status).to.equal(200);
  });

  it('are written by people who may change the device, and seen by nobody of another tenant', async () => {
    const { id } = (await add({ text: 'Inside' })).body;
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await add({ text: 'x' }, viewer)).status).to.equal(403);
    expect((await app.call('GET', at(), { token: viewer.token })).body.data).to.have.length(1);
    const stranger = await buildTenant(app);
    for (const attempt of [
      app.call('GET', at(), { token: stranger.admin.token }),
      add({ text: 'x' }, stranger.admin),
      change(id, { text: 'x' }, stranger.admin),
      remove(id, stranger.admin),
    ]) {
      expect((await attempt).status).to.equal(404);
    }
    // The note of one device is not found below another one.
    const other = await buildDevice(app, tenant.orgId);
    const elsewhere = await app.call('PATCH', `/devices/${other.deviceId}/notes/${id}`, {
      token: tenant.technician.token,
      body: { isPinned: true },
    });
    expect(elsewhere.status).to.equal(404);
    expect((await list()).data).to.have.length(1);
  });

  it('refuse what is no note, and say which rule it breaks', async () => {
    for (const body of [
      {},
      { text: '' },
      { text: '  \n ' },
      { text: 'x'.repeat(4001) },
      { text: 'a\0b' },
      { text: 'x', authorName: 'The boss' },
      { text: 'x', isPinned: 'yes' },
    ]) {
      const { status, body: answer } = await add(body);
      expect(status, JSON.stringify(body).slice(0, 60)).to.equal(400);
      expect(JSON.stringify(answer)).to.contain('body');
    }
    expect((await add({ text: 'x'.repeat(2_000_000) })).status).to.equal(413);
    const { id } = (await add({ text: 'x'.repeat(4000) })).body;
    expect((await change(id, {})).status).to.equal(400);
  });
});
