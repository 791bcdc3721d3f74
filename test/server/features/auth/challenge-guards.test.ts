import { expect } from 'chai';
import { countTry } from '../../../../src/features/auth/auth.queries.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { tokenHash } from '../../../../src/platform/secrets/tokens.ts';
import { type Tx, withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the tries of a second factor', () => {
  let app: TestApp;
  let userId: string;
  let otherId: string;
  before(async () => {
    app = await sharedTestApp();
    const { orgId } = await buildTenant(app);
    [userId, otherId] = [
      (await buildPerson(app, { scope: 'organization', orgId })).id,
      (await buildPerson(app, { scope: 'organization', orgId })).id,
    ];
    await inDatabase(async (tx) => {
      for (const id of [userId, otherId]) {
        await tx.raw(
          `insert into user_mfa (user_id, secret, recovery_salt, enabled_at) values (?, 's', 'r', now())`,
          [id],
        );
      }
    });
  });
  after(async () => app.close());
  beforeEach(async () =>
    inDatabase((tx) =>
      tx('user_mfa')
        .whereIn('user_id', [userId, otherId])
        .update({ tries: 0, tries_since: tx.raw(`now() - interval '1 hour'`) }),
    ),
  );

  const inDatabase = <T>(work: (tx: Tx) => PromiseLike<T>) =>
    withSystem(app.server.database.pool, 'a test', work);
  /** @param more  SQL */
  async function challenge(more: Record<string, string> = {}): Promise<string> {
    const hash = tokenHash(newId());
    const row = { expires_at: `now() + interval '5 minutes'`, ...more };
    await inDatabase((tx) =>
      tx.raw(
        `insert into mfa_challenges (token_hash, user_id, ${Object.keys(row).join(', ')})
        values (?, ?, ${Object.values(row).join(', ')})`,
        [hash, userId],
      ),
    );
    return hash;
  }
  const attempt = (hash: string) => inDatabase((tx) => countTry(tx, hash));

  for (const [what, row] of [
    ['was used', { used_at: 'now()' }],
    ['has expired', { expires_at: `now() - interval '1 second'` }],
    ['had five tries', { tries: '5' }],
  ] as const) {
    it(`end with a challenge that ${what}`, async () => {
      expect(await attempt(await challenge(row))).to.equal(undefined);
    });
  }

  it('are five of one challenge', async () => {
    const hash = await challenge();
    for (let n = 0; n < 5; n++) expect(await attempt(hash)).to.deep.include({ userId, retryAfterMs: 0 });
    expect(await attempt(hash)).to.equal(undefined);
  });

  it('are fifteen of one person in fifteen minutes from the first of them, and not those of another', async () => {
    await inDatabase((tx) =>
      tx.raw(
        `update user_mfa set tries = 14, tries_since = now() - interval '14 minutes' where user_id = ?`,
        [userId],
      ),
    );
    expect((await attempt(await challenge()))?.retryAfterMs).to.equal(0);
    expect((await attempt(await challenge()))?.retryAfterMs).to.be.within(1, 60_000);
    const { rows } = await inDatabase((tx) =>
      tx.raw('select tries from user_mfa where user_id = ?', [otherId]),
    );
    expect(rows).to.deep.equal([{ tries: 0 }]);
  });

  it('begin to count anew fifteen minutes after the first', async () => {
    await inDatabase((tx) =>
      tx.raw(
        `update user_mfa set tries = 15, tries_since = now() - interval '16 minutes' where user_id = ?`,
        [userId],
      ),
    );
    for (let n = 0; n < 15; n++) expect((await attempt(await challenge()))?.retryAfterMs, `${n}`).to.equal(0);
    expect((await attempt(await challenge()))?.retryAfterMs).to.be.within(800_000, 900_000);
  });
});
