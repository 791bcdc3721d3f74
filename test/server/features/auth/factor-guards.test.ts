import { expect } from 'chai';
import {
  consumeCode,
  factorOf,
  ownProofs,
  storeRecoveryCodes,
  unusedRecoveryCodes,
} from '../../../../src/features/auth/second-factor.ts';
import type { Context } from '../../../../src/platform/context.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { createEncryptor, sealContext } from '../../../../src/platform/secrets/sealed.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const FORMER = { current: 'the former key of thirty-two characters', old: [] };
const PRESENT = { current: 'the present key of thirty-two characters', old: [FORMER.current] };

const SALT = 'ab'.repeat(16);

describe('the guards of a second factor', () => {
  let app: TestApp;
  let userId: string;
  let otherId: string;

  before(async () => {
    app = await createTestApp();
    const { orgId } = await buildTenant(app);
    ({ id: userId } = await buildPerson(app, { scope: 'organization', orgId }));
    ({ id: otherId } = await buildPerson(app, { scope: 'organization', orgId }));
  });
  after(async () => app.close());
  beforeEach(async () => {
    await inDatabase(async (tx) => {
      await tx('user_mfa').delete();
      for (const id of [userId, otherId]) {
        await tx.raw(
          `insert into user_mfa (user_id, secret, recovery_salt, enabled_at) values (?, ?, ?, now())`,
          [id, former.seal('first', context(id)), SALT],
        );
      }
    });
  });

  const [former, present] = [createEncryptor(FORMER), createEncryptor(PRESENT)];
  const context = (id = userId) => sealContext('user_mfa', 'secret', id);
  const inDatabase = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'a test', work);
  const stored = async (): Promise<string> => {
    const row = await inDatabase((tx) => tx('user_mfa').where({ user_id: userId }).first('secret'));
    return row.secret;
  };
  const read = () => inDatabase((tx) => factorOf(tx, present, userId));

  it('seal it with the present key when it is read', async () => {
    expect(await read()).to.deep.equal({ secret: 'first', recoverySalt: SALT, enabled: true });
    expect(present.open(await stored(), context())).to.deep.equal({ text: 'first', stale: false });
  });

  it('leave it as it is where it was replaced in the same moment', async () => {
    const replaced = inDatabase(async (tx) => {
      await tx('user_mfa')
        .where({ user_id: userId })
        .update({ secret: present.seal('second', context()) });
      const reading = read();
      await eventually(
        () =>
          asOwner(
            app.database.ownerUrl,
            `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        (waiting) => waiting.length > 0,
      );
      return { reading };
    });
    expect((await (await replaced).reading)?.secret).to.equal('first');
    expect(present.open(await stored(), context()).text).to.equal('second');
  });

  it('replace the recovery codes of one person, and leave those of all others', async () => {
    const codes = (...hashes: string[]) => ({ salt: SALT, codes: [], hashes });
    await inDatabase((tx) => storeRecoveryCodes(tx, otherId, codes('a', 'b')));
    await inDatabase((tx) => storeRecoveryCodes(tx, userId, codes('c', 'd', 'e')));
    await inDatabase((tx) => storeRecoveryCodes(tx, userId, codes('c')));
    const counts = await inDatabase(async (tx) => [
      await unusedRecoveryCodes(tx, userId),
      await unusedRecoveryCodes(tx, otherId),
    ]);
    expect(counts).to.deep.equal([1, 2]);
  });

  it('refuse what a person has proved whose password has changed since, or who is disabled', async () => {
    const user = await inDatabase((tx) => tx('users').where({ id: otherId }).first('password_hash'));
    const passwordHash: string = user.password_hash;
    const forgotten: unknown[] = [];
    const { redeem } = ownProofs({
      encryptor: present,
      ownSecrets: {
        take: async () => {},
        forget: async (key: string) => void forgotten.push(key),
      } as unknown as Parameters<typeof ownProofs>[0]['ownSecrets'],
    });
    const outcome = (proof: { passwordHash: string }) =>
      inDatabase(async (tx) => {
        const tasks: (() => unknown)[] = [];
        const ctx = {
          tx,
          caller: { userId: otherId },
          afterCommit: (task: () => unknown) => tasks.push(task),
        };
        await redeem(ctx as unknown as Context, 'app', {
          ...proof,
          bySession: false,
          code: undefined,
        });
        return tasks.length;
      }).catch((error: { code: string }) => error.code);
    expect(await outcome({ passwordHash })).to.equal(1);
    expect(await outcome({ passwordHash: 'another' })).to.equal('conflict');
    await inDatabase((tx) => tx('users').where({ id: otherId }).update({ status: 'disabled' }));
    expect(await outcome({ passwordHash })).to.equal('conflict');
    expect(forgotten, 'before the commit').to.deep.equal([]);
  });

  it('take a code once, for the factor against which it was read', async () => {
    const use = (code: Parameters<typeof consumeCode>[2]) =>
      inDatabase((tx) => consumeCode(tx, userId, code));
    const hashes = ['a'];
    await inDatabase((tx) => storeRecoveryCodes(tx, userId, { salt: SALT, codes: [], hashes }));
    const REPLACED = 'cd'.repeat(16);
    expect(await use({ recoverySalt: REPLACED, step: 100 }), 'a code of a replaced factor').to.equal(false);
    expect(await use({ recoverySalt: REPLACED, hash: 'a' }), 'its recovery code').to.equal(false);
    expect(await use({ recoverySalt: SALT, step: 100 })).to.equal(true);
    for (const step of [100, 99]) expect(await use({ recoverySalt: SALT, step })).to.equal(false);
    expect(await use({ recoverySalt: SALT, step: 101 })).to.equal(true);
    expect(await use({ recoverySalt: SALT, hash: 'a' })).to.equal(true);
    expect(await use({ recoverySalt: SALT, hash: 'a' })).to.equal(false);
  });
});
