import { expect } from 'chai';
import { tmpdir } from 'node:os';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildPerson, buildTenant, PASSWORD } from '../../../../support/factories.ts';
import { environmentOf, runMuster } from '../../../../support/run-muster.ts';
import { createTestApp, type TestApp } from '../../../../support/test-app.ts';
import { query } from '../../../../support/sso/sso-support.ts';
import { enforceFor } from '../../../../support/sso/enforcement/enforcement-support.ts';

describe('muster sso', function () {
  this.timeout(120_000);
  let app: TestApp;
  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());

  const muster = (...args: string[]) =>
    runMuster(['sso', ...args], { env: environmentOf(app.database, tmpdir()) });
  const login = (email: string) => app.call('POST', '/auth/login', { body: { email, password: PASSWORD } });

  it('lets the people of a provider use their passwords again, once', async () => {
    const { orgId, partnerId } = await buildTenant(app);
    const person = await buildPerson(app, { scope: 'organization', orgId });
    const without = await buildPerson(app, { scope: 'organization', orgId });
    await query(app, 'update users set password_hash = null where id = ?', [without.id]);
    const other = await buildTenant(app);
    const elsewhere = await enforceFor(app, { org_id: other.orgId });
    const id = await enforceFor(app, { org_id: orgId }, [], { name: 'Locked Door' });
    expect((await login(person.email)).body.code).to.equal('SSO_REQUIRED');

    const unlocked = await muster('unlock', '--provider', id.toUpperCase());
    expect(unlocked, unlocked.err).to.include({ code: 0, err: '' });
    const [organization] = await query<{ name: string }>(app, 'select name from organizations where id = ?', [
      orgId,
    ]);
    expect(unlocked.out.split('\n')[0]).to.equal(
      `Locked Door (organization ${organization?.name}) is no longer enforced.`,
    );
    expect(unlocked.out).to.contain(`  ${person.email}\n`);
    expect(unlocked.out).to.contain(`  ${without.email}  (has no password yet`);
    expect(unlocked.out).not.to.contain(other.technician.email);
    expect((await login(person.email)).status).to.equal(200);
    expect((await login(other.technician.email)).body.code, 'the other one').to.equal('SSO_REQUIRED');

    await app.server.chainWriter.flush();
    const entries = `select org_id, partner_id, actor_type, resource_id, resource_name, details from audit_logs
      where action = 'sso.enforcement.unlock' order by id`;
    const entry = {
      org_id: orgId,
      partner_id: partnerId,
      actor_type: 'system',
      resource_id: id,
      resource_name: 'Locked Door',
      details: { before: { enforceSSO: true }, after: { enforceSSO: false }, people: 3 },
    };
    expect(await query(app, entries)).to.deep.equal([entry]);
    const state = 'select enforce_sso, status, config_version from sso_providers where id = ?';
    const after = { enforce_sso: false, status: 'active', config_version: 2 };
    expect(await query(app, state, [id]), 'logins under way end').to.deep.equal([after]);

    const again = await muster('unlock', '--provider', id);
    expect(again.code).to.equal(0);
    expect(again.out).to.contain('was not enforced. Nothing was changed.');
    await app.server.chainWriter.flush();
    expect(await query(app, entries)).to.have.lengthOf(1);
    expect(await query(app, state, [id])).to.deep.equal([after]);
    await query(app, 'delete from sso_providers where id = ?', [elsewhere]);
  });

  it('lists what is enforced, and who can get in without it', async () => {
    expect((await muster('list')).out).to.equal('No identity provider is enforced.\n');
    const { partnerId, admin } = await buildTenant(app);
    const id = await enforceFor(app, { partner_id: partnerId }, [admin]);
    await enforceFor(app, { partner_id: partnerId }, [], { enforce_sso: false });
    const { out } = await muster('list');
    const [partner] = await query<{ name: string }>(app, 'select name from partners where id = ?', [
      partnerId,
    ]);
    expect(out.split('\n')).to.deep.equal([
      `${id}  Acme Login (partner ${partner?.name})`,
      '  governs 1 person; last sign-in with it: never',
      `  break-glass: ${admin.email}`,
      '',
    ]);
    expect((await muster('unlock', '--provider', id)).code).to.equal(0);
    await app.server.chainWriter.flush();
    const [entry] = await query(
      app,
      `select org_id, partner_id from audit_logs where action = 'sso.enforcement.unlock' and resource_id = ?`,
      [id],
    );
    expect(entry).to.deep.equal({ org_id: null, partner_id: partnerId });
  });

  it('fails plainly for what is no provider', async () => {
    const id = newId();
    const unknown = await muster('unlock', '--provider', id);
    expect(unknown).to.include({ code: 2, out: '', err: `There is no identity provider ${id}.\n` });
    for (const args of [['unlock'], ['unlock', '--provider', 'acme'], ['lock'], []]) {
      const { code, err } = await muster(...args);
      expect(code, args.join(' ')).to.equal(2);
      expect(err).not.to.contain('    at ');
    }
    expect((await muster('unlock', '--provider', 'acme')).err).to.contain(
      'Must be the id of an identity provider.',
    );
  });
});
