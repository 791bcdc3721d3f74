import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { buildPartner, buildPerson, buildTenant, type Person } from '../../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../../support/test-app.ts';
import { IMAGES } from '../../../../support/sso/branding/images.ts';

const PATH = '/partners/me/login-branding';
const LOGO = `data:image/png;base64,${IMAGES.png}`;
const CLEARED = { logoUrl: null, accentColor: null, headline: null };

describe('the branding of the sign-in page', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const put = (body: unknown, who: Person = tenant.admin) =>
    app.call('PUT', PATH, { token: who.token, body });
  const get = async (who: Person = tenant.admin) => app.call('GET', PATH, { token: who.token });

  it('is empty at first, and replaced whole: what is left out is cleared', async () => {
    expect((await get()).body).to.deep.equal({ ...CLEARED, updatedAt: null });
    const full = await put({ logoUrl: LOGO, accentColor: '#1A2B3C', headline: 'Willkommen 👋' });
    expect(full.status).to.equal(200);
    expect(full.body).to.deep.include({ logoUrl: LOGO, accentColor: '#1a2b3c', headline: 'Willkommen 👋' });
    expect((await get()).body).to.deep.equal(full.body);
    const partial = await put({ headline: 'Hello', accentColor: null });
    expect(partial.body).to.deep.include({ ...CLEARED, headline: 'Hello' });
    expect((await put({})).body).to.deep.include(CLEARED);
  });

  it('is in the trail with what changed, and not with a quarter of a megabyte', async () => {
    await put({ headline: 'Before', logoUrl: LOGO });
    await put({ headline: 'After', logoUrl: LOGO });
    await app.server.chainWriter.flush();
    const { entries } = (await app.call('GET', '/audit-logs?limit=2', { token: tenant.admin.token })).body;
    expect(entries[0]).to.deep.include({
      action: 'partner.login_branding.update',
      changes: { before: { headline: 'Before' }, after: { headline: 'After' } },
    });
    expect(JSON.stringify(entries).length).to.be.below(5000);
  });

  for (const [name, body, path, rule] of [
    ['a color that is a word', { accentColor: 'red' }, 'accentColor', 'must be a color such as #1a2b3c'],
    ['a short color', { accentColor: '#abc' }, 'accentColor', 'must be a color such as #1a2b3c'],
    ['a color with a line behind it', { accentColor: '#aabbcc\n' }, 'accentColor', 'must be a color'],
    ['a headline of 121 characters', { headline: 'x'.repeat(121) }, 'headline', '120'],
    ['a headline of two lines', { headline: 'a\nb' }, 'headline', 'must not contain control characters'],
    ['a headline that turns around', { headline: 'a\u202eb' }, 'headline', 'must not contain control'],
    ['a headline that is blank', { headline: '  ' }, 'headline', 'must not be blank'],
    ['a headline with NUL', { headline: 'a\0b' }, 'headline', 'must not contain'],
    ['a logo that is a script', { logoUrl: 'javascript:alert(1)' }, 'logoUrl', 'must be an https:// URL'],
    ['a logo that is an SVG', { logoUrl: 'data:image/svg+xml;base64,PHN2Zy8+' }, 'logoUrl', 'SVG'],
    ['a logo that is a list', { logoUrl: [LOGO] }, 'logoUrl', 'expected string'],
    ['an unknown field', { logo: LOGO }, '', 'logo'],
  ] as const) {
    it(`is not ${name}`, async () => {
      const answer = await put(body);
      expect(answer.status).to.equal(400);
      expect(answer.body.details[0].path).to.equal(path === '' ? 'body' : `body.${path}`);
      expect(answer.body.details[0].message).to.include(rule);
    });
  }

  it('has a headline of up to 120 characters', async () => {
    const headline = '👋'.repeat(120);
    expect((await put({ headline })).body.headline).to.equal(headline);
    expect((await put({ headline: `${headline}!` })).status).to.equal(400);
  });

  it('takes a logo at the limit, and refuses one of 300 kB and one of 5 MB', async () => {
    const logo = (size: number) => `data:image/png;base64,${Buffer.alloc(size).toString('base64')}`;
    const large = await put({ logoUrl: logo(280_000) });
    expect([large.status, large.body.details]).to.deep.equal([
      400,
      [{ path: 'body.logoUrl', message: 'must have at most 262144 bytes' }],
    ]);
    const huge = await put({ logoUrl: logo(5_000_000) });
    expect([huge.status, huge.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
  });

  it('is changed by partner people with the right and access to all organizations', async () => {
    const { partnerId, orgId } = tenant;
    const people = {
      viewer: await buildPerson(app, { scope: 'partner', partnerId, role: SYSTEM_ROLES.partnerViewer }),
      regional: await buildPerson(app, {
        scope: 'partner',
        partnerId,
        orgAccess: 'selected',
        orgIds: [orgId],
      }),
      organization: await buildPerson(app, { scope: 'organization', orgId }),
      system: await buildPerson(app, { scope: 'system' }),
    };
    await put({ headline: 'Ours' });
    for (const [name, who] of Object.entries(people)) {
      expect((await put({ headline: 'Theirs' }, who)).status, name).to.equal(403);
    }
    const statuses = await Promise.all(Object.values(people).map(async (who) => (await get(who)).status));
    expect(statuses).to.deep.equal([200, 200, 403, 403]);
    expect((await get()).body.headline).to.equal('Ours');
  });

  it('is each partner’s own', async () => {
    const other = await buildTenant(app);
    await put({ headline: 'Ours' });
    expect((await get(other.admin)).body.headline).to.equal(null);
    await put({ headline: 'Theirs' }, other.admin);
    expect((await get()).body.headline).to.equal('Ours');
  });

  it('is one of two that are stored at once, whole', async () => {
    const fresh = await buildTenant(app);
    const bodies = Array.from({ length: 8 }, (_, i) => ({ headline: `H${i}`, accentColor: `#00000${i}` }));
    const answers = await Promise.all(bodies.map((body) => put(body, fresh.admin)));
    expect(answers.map(({ status }) => status)).to.deep.equal(bodies.map(() => 200));
    const { headline, accentColor } = (await get(fresh.admin)).body;
    expect(bodies).to.deep.include({ headline, accentColor });
  });
});

describe('the sign-in page', () => {
  const NOTHING = { branding: null, partnerSso: null };
  const context = async (app: TestApp) => (await app.call('GET', '/auth/login-context')).body;
  const branded = async (app: TestApp, body: object) => {
    const tenant = await buildTenant(app);
    const { status } = await app.call('PUT', PATH, { token: tenant.admin.token, body });
    expect(status).to.equal(200);
    return tenant;
  };
  const provider = (app: TestApp, row: object) =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      tx('sso_providers').insert({
        id: tx.raw('gen_random_uuid()'),
        type: 'oidc',
        attribute_mapping: JSON.stringify({ email: 'email', name: 'name' }),
        status: 'active',
        ...row,
      }),
    );

  it('shows the one active partner, and a change of its branding at once', async () => {
    const app = await createTestApp({ env: { PUBLIC_URL: 'https://rmm.example.com' } });
    try {
      const { partnerId, orgId, admin } = await branded(app, { logoUrl: LOGO, headline: 'Hello' });
      await buildPartner(app, { status: 'suspended' });
      await buildPartner(app, { deleted_at: new Date() });
      const branding = { logoUrl: LOGO, accentColor: null, headline: 'Hello' };
      await provider(app, { partner_id: partnerId, name: 'Newer', created_at: '2026-02-01' });
      await provider(app, {
        partner_id: partnerId,
        name: 'Oldest',
        created_at: '2026-01-01',
        enforce_sso: true,
      });
      await provider(app, {
        partner_id: partnerId,
        name: 'Off',
        created_at: '2025-01-01',
        status: 'inactive',
      });
      await provider(app, { org_id: orgId, name: 'Of a customer', created_at: '2024-01-01' });
      const partnerSso = {
        providerName: 'Oldest',
        loginUrl: `https://rmm.example.com/api/v1/sso/login/partner/${partnerId}`,
        enforceSSO: true,
      };
      expect(await context(app)).to.deep.equal({ branding, partnerSso });

      await app.call('PUT', PATH, { token: admin.token, body: { headline: 'Goodbye' } });
      expect((await context(app)).branding.headline).to.equal('Goodbye');
      await app.call('PUT', PATH, { token: admin.token, body: {} });
      expect(await context(app)).to.deep.equal({ branding: null, partnerSso });
    } finally {
      await app.close();
    }
  });

  it('reads the database once for many visitors, and refuses those who come too often', async () => {
    const app = await createTestApp();
    try {
      const { partnerId } = await branded(app, { headline: 'Hello' });
      const first = await context(app);
      // Past the cache of this server, as another server would do it.
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx('partner_login_branding').where({ partner_id: partnerId }).update({ headline: 'Changed' }),
      );
      const answers = await Promise.all(
        Array.from({ length: 310 }, () => app.call('GET', '/auth/login-context')),
      );
      const [shown, refused] = [200, 429].map((status) => answers.filter((one) => one.status === status));
      expect(shown).to.have.length(299);
      expect(refused).to.have.length(11);
      for (const { body } of shown ?? []) expect(body).to.deep.equal(first);
    } finally {
      await app.close();
    }
  });

  it('shows nothing of several partners', async () => {
    const app = await createTestApp();
    try {
      await branded(app, { headline: 'One' });
      await branded(app, { headline: 'Two' });
      expect(await context(app)).to.deep.equal(NOTHING);
    } finally {
      await app.close();
    }
  });

  it('shows nothing on a hosted server', async () => {
    const app = await createTestApp({ env: { DEPLOYMENT: 'hosted' } });
    try {
      await branded(app, { headline: 'One' });
      expect(await context(app)).to.deep.equal(NOTHING);
    } finally {
      await app.close();
    }
  });
});
