import { expect } from 'chai';
import { endEverySession } from '../../../../src/features/auth/index.ts';
import { insertSession, signedInFrom } from '../../../../src/features/auth/auth.queries.ts';
import {
  endSession,
  loadCaller,
  lockOpenSession,
  rotateRefreshToken,
} from '../../../../src/features/auth/session.service.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { tokenHash } from '../../../../src/platform/secrets/tokens.ts';
import { type Tx, withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

/** The session that a sign-in opens is then the hundredth. */
const OPEN_BEFORE = 99;

describe('the guards of sessions', () => {
  let app: TestApp;
  let userId: string;
  let otherId: string;
  let email: string;
  before(async () => {
    app = await sharedTestApp();
    const { orgId } = await buildTenant(app);
    ({ id: userId, email } = await buildPerson(app, { scope: 'organization', orgId }));
    otherId = (await buildPerson(app, { scope: 'organization', orgId })).id;
  });
  after(async () => app.close());

  /** Runs a test in a transaction that is undone: what ends all sessions would end those of other tests. */
  async function undone(work: (tx: Tx) => Promise<void>): Promise<void> {
    const end = new Error('undone');
    await withSystem(app.server.database.pool, 'a test', async (tx) => {
      await tx('sessions').whereIn('user_id', [userId, otherId]).delete();
      await work(tx);
      throw end;
    }).catch((error: unknown) => {
      if (error !== end) throw error;
    });
  }
  async function open(tx: Tx, { user = userId, usedAgo = '0 s', token = newId() } = {}): Promise<string> {
    const id = newId();
    await tx.raw(
      `insert into sessions (id, user_id, expires_at, last_used_at)
      values (?, ?, now() + interval '1 day', now() - ?::interval)`,
      [id, user, usedAgo],
    );
    await tx('refresh_tokens').insert({ token_hash: tokenHash(token), session_id: id });
    return id;
  }
  const signIn = async (tx: Tx) =>
    insertSession(tx, {
      sessionId: newId(),
      userId,
      days: 7,
      mfa: false,
      mfaByProvider: false,
      ssoProviderId: null,
      ipAddress: '192.0.2.1',
      userAgent: null,
      refreshTokenHash: tokenHash(newId()),
    });
  const reasons = async (tx: Tx, ids: readonly string[]) => {
    const rows = await tx('sessions').whereIn('id', ids).select('id', 'revoked_at', 'revoked_reason');
    return ids.map((id) => {
      const row = rows.find((each: { id: string }) => each.id === id);
      return row.revoked_at === null ? 'open' : row.revoked_reason;
    });
  };

  it('end the session used longest ago of the person who signs in, and of nobody else', async () => {
    await undone(async (tx) => {
      const foreign = await open(tx, { user: otherId, usedAgo: '2 days' });
      const oldest = await open(tx, { usedAgo: '1 day' });
      for (let n = 1; n < OPEN_BEFORE; n++) await open(tx);
      await signIn(tx);
      expect(await reasons(tx, [foreign, oldest])).to.deep.equal(['open', 'open']);
      await signIn(tx);
      expect(await reasons(tx, [foreign, oldest])).to.deep.equal(['open', 'too_many_sessions']);
    });
  });

  it('do not count sessions that have ended against their number, nor end them again', async () => {
    await undone(async (tx) => {
      const ended = await open(tx, { usedAgo: '2 days' });
      await endSession(tx, ended, 'sign_out');
      const oldest = await open(tx, { usedAgo: '1 day' });
      for (let n = 1; n < OPEN_BEFORE; n++) await open(tx);
      await signIn(tx);
      expect(await reasons(tx, [ended, oldest])).to.deep.equal(['sign_out', 'open']);
    });
  });

  it('keep the reason for which a session has ended first', async () => {
    await undone(async (tx) => {
      const [first, second] = [await open(tx), await open(tx, { user: otherId })];
      await endSession(tx, first, 'sign_out');
      await endSession(tx, first, 'ended_by_owner');
      await endEverySession(tx, 'installation_restored');
      expect(await reasons(tx, [first, second])).to.deep.equal(['sign_out', 'installation_restored']);
    });
  });

  for (const [how, change] of [
    ['ended', { revoked_at: '2020-01-01', revoked_reason: 'sign_out' }],
    ['expired', { expires_at: '2020-01-01' }],
  ] as const) {
    it(`let no request go on whose session has ${how} since it arrived`, async () => {
      await undone(async (tx) => {
        const id = await open(tx);
        const caller = await loadCaller(tx, id);
        await lockOpenSession({ tx, caller });
        await tx('sessions').where({ id }).update(change);
        const refused: unknown = await lockOpenSession({ tx, caller }).catch((error: unknown) => error);
        expect(refused).to.include({ code: 'unauthenticated' });
      });
    });

    it(`give no new token for a session that has ${how}`, async () => {
      await undone(async (tx) => {
        const token = newId();
        const id = await open(tx, { token });
        await tx('sessions').where({ id }).update(change);
        expect(await rotateRefreshToken(tx, token)).to.deep.equal({ outcome: 'unknown' });
      });
    });
  }

  it('end the session whose used token comes back, and say so', async () => {
    await undone(async (tx) => {
      const token = newId();
      const id = await open(tx, { token });
      await tx('refresh_tokens')
        .where({ token_hash: tokenHash(token) })
        .update({ used_at: '2020-01-01' });
      expect(await rotateRefreshToken(tx, token)).to.deep.equal({ outcome: 'reused' });
      expect(await reasons(tx, [id])).to.deep.equal(['refresh_token_reused']);
    });
  });

  it('make an address known for the person who has signed in from it in the last 30 days', async () => {
    const ip = '198.51.100.7';
    const from = (tx: Tx, id: string, changes: object = {}) =>
      tx('sessions')
        .where({ id })
        .update({ ip_address: ip, ...changes });
    await undone(async (tx) => {
      await from(tx, await open(tx, { user: otherId }));
      await from(tx, await open(tx), { created_at: tx.raw(`now() - interval '31 days'`) });
      expect(await signedInFrom(tx, email, ip)).to.equal(false);
      await from(tx, await open(tx), { created_at: tx.raw(`now() - interval '29 days'`) });
      expect(await signedInFrom(tx, email, ip)).to.equal(true);
    });
  });

  it('give no new token for a session that ends in the same moment', async () => {
    const token = newId();
    const { pool } = app.server.database;
    const id = await withSystem(pool, 'a test', (tx) => open(tx, { token }));
    const { refreshed } = await withSystem(pool, 'a test', async (tx) => {
      await endSession(tx, id, 'sign_out');
      const answer = withSystem(pool, 'a test', (other) => rotateRefreshToken(other, token));
      await eventually(
        () =>
          asOwner(
            app.database.ownerUrl,
            `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        (waiting) => waiting.length > 0,
      );
      // In an object, because a promise that is returned would be awaited before the commit.
      return { refreshed: answer };
    });
    expect(await refreshed).to.deep.equal({ outcome: 'unknown' });
    await withSystem(pool, 'a test', (tx) => tx('sessions').where({ id }).delete());
  });
});
