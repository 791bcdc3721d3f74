import { clock } from '../clock.ts';
import { newExchangeCode } from '../features/sso/index.ts';
import { withSystem } from '../platform/db/transaction.ts';
import { newId } from '../platform/ids.ts';
import type { Infrastructure } from './infrastructure.ts';
import type { Services } from './services.ts';

/** Longer than the code of a single sign-on lives, because a person has to see the link first. */
const LINK_MINUTES = 15;

/**
 * Signs a person in for the program that runs this server, which has the database in its hands anyway: no route leads
 * here. The answer belongs behind the address of any page of the dashboard, and is good for one browser, once. The part
 * behind the # is never sent to a server, so that no proxy logs it.
 */
export function createSignInFragments(
  { database, secrets, log }: Pick<Infrastructure, 'database' | 'secrets' | 'log'>,
  { auth, audit }: Pick<Services, 'auth' | 'audit'>,
): (userId: string) => Promise<string> {
  return async (userId) => {
    const code = await withSystem(database.pool, 'sign in by a link of this program', async (tx) => {
      const ctx = {
        requestId: newId(),
        log,
        client: { ip: '127.0.0.1', trusted: false, userAgent: null },
        arrivedAt: clock.monotonic(),
        withSystem: <T>(_why: string, work: (inner: typeof tx) => PromiseLike<T>) =>
          Promise.resolve(work(tx)),
      };
      const { caller, refreshToken } = await auth.openForProvider(tx, ctx, userId, { mfa: false });
      return newExchangeCode(tx, secrets, { sessionId: caller.sessionId, refreshToken }, LINK_MINUTES);
    });
    audit.committed();
    return `#ssoCode=${code}`;
  };
}
