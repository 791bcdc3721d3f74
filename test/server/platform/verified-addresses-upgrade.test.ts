import { expect } from 'chai';
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { migrate, MIGRATIONS_DIR } from '../../../src/platform/db/migrations/migrations.ts';
import { openSession } from '../../../src/platform/db/pool.ts';
import { newId } from '../../../src/platform/ids.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const FILE = '0030_verified_addresses.sql';

describe('the upgrade to verified addresses', () => {
  let database: TestDatabase;
  let earlier: string;

  before(async () => {
    database = await createTestDatabase({ migrated: false });
    earlier = await mkdtemp(path.join(tmpdir(), 'muster-migrations-'));
    await cp(MIGRATIONS_DIR, earlier, { recursive: true });
    for (const name of await readdir(earlier)) if (name >= FILE) await rm(path.join(earlier, name));
  });
  after(async () => {
    await database.drop();
    await rm(earlier, { recursive: true, force: true });
  });

  const owner = (sql: string, values: unknown[] = []) =>
    asOwner<Record<string, unknown>>(database.ownerUrl, sql, values);
  const apply = async (directory?: string) => {
    const session = openSession(database.ownerUrl, 'test-migrate');
    const lockSession = openSession(database.ownerUrl, 'test-migrate-lock');
    try {
      await migrate(session, lockSession, { directory });
    } finally {
      await session.destroy();
      await lockSession.destroy();
    }
  };

  it('keeps members who have signed in, and makes invitations of memberships that nobody accepted', async () => {
    await apply(earlier);
    const partner = newId();
    await owner(`insert into partners (id, name, slug, status) values ($1, 'Acme', 'acme', 'active')`, [
      partner,
    ]);
    const person = async (
      email: string,
      account: { password?: boolean; signedIn?: boolean; status?: string },
      membership: { invited?: boolean; system?: boolean; none?: boolean } = {},
    ) => {
      const id = newId();
      await owner(
        `insert into users (id, email, name, password_hash, status, last_login_at) values ($1, $2, 'Some', $3, $4, $5)`,
        [
          id,
          email,
          account.password === false ? null : 'hash',
          account.status ?? 'active',
          account.signedIn === true ? new Date() : null,
        ],
      );
      if (membership.none === true) return;
      if (membership.system === true) {
        await owner('insert into system_users (user_id, role_id) values ($1, $2)', [
          id,
          SYSTEM_ROLES.systemAdmin,
        ]);
        return;
      }
      await owner(
        `insert into partner_users (partner_id, user_id, role_id, org_access) values ($1, $2, $3, 'all')`,
        [partner, id, SYSTEM_ROLES.partnerViewer],
      );
      if (membership.invited === true) {
        await owner(
          `insert into invitations (user_id, partner_id, token_hash, expires_at) values ($1, $2, $3, now() + interval '1 day')`,
          [id, partner, `hash-of-${email}`],
        );
      }
    };
    await person('member@example.com', { signedIn: true });
    await person('first-admin@example.com', {}, { system: true });
    await person('registered@example.com', {}, { none: true });
    await person('never-signed-in@example.com', {});
    await person('invited@example.com', { password: false, status: 'invited' }, { invited: true });
    await person('paused@example.com', { password: false, status: 'disabled' }, { invited: true });
    await person('hijacked@example.com', { signedIn: true }, { invited: true });

    await apply();

    const accounts = await owner(
      `select email, email_verified_at is not null as verified, exists (
        select from partner_users m where m.user_id = u.id) as member from users u order by email`,
    );
    expect(accounts).to.deep.equal([
      { email: 'first-admin@example.com', verified: true, member: false },
      { email: 'hijacked@example.com', verified: false, member: false },
      { email: 'member@example.com', verified: true, member: true },
      { email: 'never-signed-in@example.com', verified: false, member: true },
      { email: 'registered@example.com', verified: false, member: false },
    ]);
    const invitations = await owner(
      `select email, partner_id, role_id, org_access, suspended, trim(link_token_hash) as link
      from membership_invitations order by email`,
    );
    expect(invitations).to.deep.equal(
      ['hijacked', 'invited', 'paused'].map((name) => ({
        email: `${name}@example.com`,
        partner_id: partner,
        role_id: SYSTEM_ROLES.partnerViewer,
        org_access: 'all',
        suspended: name === 'paused',
        link: `hash-of-${name}@example.com`,
      })),
    );
  });
});
