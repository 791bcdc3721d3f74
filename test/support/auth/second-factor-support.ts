import { Secret, TOTP } from 'otpauth';
import { clock } from '../../../src/clock.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { PASSWORD, type Person } from '../factories.ts';
import type { TestApp } from '../test-app.ts';

export const codeOf = (secret: string, steps = 0): string =>
  TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: clock.now() + steps * 30_000 });

/** As if the last code had been used long ago. */
export const forgetLastCode = (app: TestApp, { id }: Person) =>
  withSystem(app.server.database.pool, 'test', (tx) =>
    tx.raw('update user_mfa set last_step = 0, tries = 0 where user_id = ?', [id]),
  );

/** A second factor of a person who has a password. */
export async function enableSecondFactor(app: TestApp, person: Person) {
  const { token } = person;
  const setup = await app.call('POST', '/auth/mfa/setup', { token, body: { currentPassword: PASSWORD } });
  const { secret } = setup.body;
  const enabled = await app.call('POST', '/auth/mfa/enable', { token, body: { code: codeOf(secret) } });
  if (enabled.status !== 200) throw new Error(`no second factor: ${JSON.stringify(enabled.body)}`);
  await forgetLastCode(app, person);
  return { secret, code: (steps = 0) => codeOf(secret, steps) };
}
