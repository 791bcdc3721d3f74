import { expect } from 'chai';
import { boundedProfile, saveIdentity } from '../../../../../src/features/sso/link-identity.ts';
import { identityTokenContext } from '../../../../../src/features/sso/sso.model.ts';
import type { AssertedIdentity } from '../../../../../src/features/sso/sso-protocol.ts';
import { SsoFailure } from '../../../../../src/features/sso/sso-failure.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { createEncryptor } from '../../../../../src/platform/secrets/sealed.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildPerson, buildTenant } from '../../../../support/factories.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { asOwner } from '../../../../support/test-postgres.ts';
import { createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

describe('the link that a sign-in leaves', () => {
  const encryptor = createEncryptor({ current: 'a key of the test', old: [] });
  let app: TestApp;
  let orgId: string;
  let providerId: string;

  before(async () => {
    app = await createSsoApp();
    ({ orgId } = await buildTenant(app));
    providerId = await insertProvider(app, { org_id: orgId });
  });
  after(() => app.close());

  const member = async () => (await buildPerson(app, { scope: 'organization', orgId })).id;
  const person = (subject: string, more: Partial<AssertedIdentity> = {}): AssertedIdentity => ({
    subject,
    email: 'ada@example.com',
    emailVerified: true,
    name: 'Ada',
    mfa: false,
    profile: { sub: subject },
    ...more,
  });
  const save = (userId: string, identity: AssertedIdentity) =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      saveIdentity(tx, { encryptor, userId, provider: { id: providerId }, identity }),
    ).catch((error: unknown) => {
      if (error instanceof SsoFailure) return error.reason;
      throw error;
    });
  const links = (userId: string) =>
    query<Record<string, string>>(app, 'select * from user_sso_identities where user_id = ?', [userId]);

  it('holds what the provider has said, with sealed tokens', async () => {
    const userId = await member();
    const expiresAt = new Date(Date.now() + 3_600_000);
    const tokens = { accessToken: 'at-1', refreshToken: 'rt-1', expiresAt };
    expect(await save(userId, person('a1', { tokens }))).to.equal('created');
    const [link] = await links(userId);
    expect(link).to.deep.include({ external_id: 'a1', email: 'ada@example.com', profile: { sub: 'a1' } });
    expect(link?.['token_expires_at']).to.deep.equal(expiresAt);
    for (const [column, text] of [
      ['access_token', 'at-1'],
      ['refresh_token', 'rt-1'],
    ] as const) {
      expect(link?.[column]).not.to.include(text);
      expect(
        encryptor.open(link?.[column] ?? '', identityTokenContext(column, link?.['id'] ?? '')).text,
      ).to.equal(text);
    }
    // Of another sign-in the tokens of this one say nothing.
    expect(await save(userId, person('a1', { email: undefined, profile: { name: 'Ada L.' } }))).to.equal(
      'refreshed',
    );
    const [later, ...others] = await links(userId);
    expect(others).to.deep.equal([]);
    expect(later).to.deep.include({
      id: link?.['id'],
      email: null,
      profile: { name: 'Ada L.' },
      access_token: null,
      refresh_token: null,
      token_expires_at: null,
    });
  });

  it('moves with the account to another person of the provider, and belongs to one account', async () => {
    const [ada, eve] = [await member(), await member()];
    expect(await save(ada, person('b1'))).to.equal('created');
    expect(await save(ada, person('b2'))).to.equal('moved');
    expect(await save(eve, person('b2'))).to.equal('identity_in_use');
    expect(await save(eve, person('b1'))).to.equal('created');
    expect(await save(ada, person('b1'))).to.equal('identity_in_use');
    expect((await links(ada))[0]?.['external_id']).to.equal('b2');
  });

  it('is one, however many sign-ins of a person end at once', async () => {
    const userId = await member();
    const ends = await Promise.all(Array.from({ length: 8 }, () => save(userId, person('c1'))));
    expect(ends.toSorted()).to.deep.equal(['created', ...Array<string>(7).fill('refreshed')]);
    expect(await links(userId)).to.have.length(1);
  });

  it('is created by the first of two, even if the second has looked before the first has ended', async () => {
    const userId = await member();
    const identity = person('c2');
    let second: ReturnType<typeof save> | undefined;
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      const parts = { encryptor, userId, provider: { id: providerId }, identity };
      expect(await saveIdentity(tx, parts)).to.equal('created');
      second = save(userId, identity);
      await eventually(
        () =>
          asOwner(
            app.database.ownerUrl,
            `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          ),
        (waiting) => waiting.length > 0,
      );
    });
    expect(await second).to.equal('refreshed');
    expect(await links(userId)).to.have.length(1);
  });

  for (const [linked, others] of [
    [0, 8],
    [8, 0],
    [4, 4],
  ] as const) {
    it(`goes to one of ${linked} accounts with a link and ${others} without that claim a person at once`, async () => {
      const users = await Promise.all(Array.from({ length: linked + others }, member));
      for (const userId of users.slice(0, linked)) await save(userId, person(newId()));
      const subject = newId();
      const ends = await Promise.all(users.map((userId) => save(userId, person(subject))));
      expect(ends.filter((end) => end === 'identity_in_use')).to.have.length(7);
      const owners = await query(app, `select from user_sso_identities where external_id = ?`, [subject]);
      expect(owners).to.have.length(1);
    });
  }

  it('is refused for a subject that the database could not hold', async () => {
    const userId = await member();
    for (const subject of ['', 'a\0b', 'x'.repeat(256), '\ud800']) {
      expect(await save(userId, person(subject))).to.equal('answer_invalid');
    }
    expect(await links(userId)).to.deep.equal([]);
  });

  it('takes what a hostile provider sends, as far as it can be stored', async () => {
    const userId = await member();
    const profile = {
      ok: 1,
      nul: 'a\0b',
      ['k\0']: 1,
      half: '\ud800',
      deep: nested(100),
      huge: 'x'.repeat(1e6),
    };
    const tokens = { accessToken: 'x'.repeat(1e6), refreshToken: undefined, expiresAt: undefined };
    const identity = person(newId(), { email: `${'x'.repeat(300)}@example.com`, profile, tokens });
    expect(await save(userId, identity)).to.equal('created');
    const [link] = await links(userId);
    expect(link).to.deep.include({ profile: { ok: 1 }, email: null, access_token: null });
  });

  it('has a profile of at most 16 kB', () => {
    const claims = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`claim-${i}`, 'x'.repeat(400)]));
    const kept = boundedProfile({ ...claims, last: true });
    expect(JSON.stringify(kept).length).to.be.within(15_900, 16_384);
    expect(kept).to.include({ 'claim-0': 'x'.repeat(400), last: true });
    expect(boundedProfile(JSON.parse('{"__proto__":{"admin":true}}'))).not.to.have.property('admin');
  });
});

function nested(depth: number): unknown {
  return depth === 0 ? 1 : [nested(depth - 1)];
}
