import type { Tx } from '../../platform/db/transaction.ts';
import type { WithSystem } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { AppError } from '../../platform/errors.ts';

/** How often a password may be tried: from one address, on one account from one address, on one account from anywhere. */
const BY_ADDRESS = { points: 30, seconds: 300 };
const BY_ACCOUNT_AND_ADDRESS = { points: 10, seconds: 900 };
const BY_ACCOUNT = { points: 50, seconds: 900 };
/** Mails to one address, and asked for from one. */
const MAILS_TO = { points: 3, seconds: 3600 };
const MAILS_FROM = { points: 20, seconds: 3600 };
/** Guesses at the password or code of a person who is signed in, as with a stolen access token. */
const OWN_SECRETS = { points: 10, seconds: 900 };

export type SignInLimits = ReturnType<typeof signInLimits>;

export function signInLimits(limits: RateLimits) {
  const byAddress = limits.limiter('login-address', BY_ADDRESS);
  const byBoth = limits.limiter('login-account-address', BY_ACCOUNT_AND_ADDRESS);
  const byAccount = limits.limiter('login-account', BY_ACCOUNT);

  const mailsTo = limits.limiter('mail-to', MAILS_TO);
  const mailsFrom = limits.limiter('mail-from', MAILS_FROM);

  return {
    /** By person. Taken before the password or code is looked at, and forgotten once it was right. */
    ownSecrets: limits.limiter('own-secrets', OWN_SECRETS),

    /** Counts a mail that anybody can ask for, whether or not someone has the address. Throws `rate_limited`. */
    async beforeMail(email: string, ip: string): Promise<void> {
      await mailsFrom.take(ip);
      await mailsTo.take(email.toLowerCase());
    },

    /**
     * Counts a try before the password is looked at, so that tries in parallel count too. Throws `rate_limited`.
     * An account that strangers keep trying is closed to strangers only: from an address where its holder has been
     * signed in lately it stays open, so nobody can lock a person out by failing on purpose.
     * @returns to be called when the password was right: then this try does not count against anyone
     */
    async beforeTry(email: string, ip: string, withSystem: WithSystem): Promise<() => Promise<void>> {
      const account = email.toLowerCase();
      const both = `${account} ${ip}`;
      await byAddress.take(ip);
      await byBoth.take(both);
      const isClosed = await byAccount.isSpent(account);
      if (!isClosed) {
        await byAccount.take(account);
      } else if (
        !(await withSystem('whether a person signed in from here lately', (tx) =>
          signedInFrom(tx, account, ip),
        ))
      ) {
        throw new AppError('rate_limited', 'Too many attempts. Try again later.', { retryAfterMs: 900_000 });
      }
      return async () => {
        await byAddress.giveBack(ip);
        await byBoth.forget(both);
        if (!isClosed) await byAccount.giveBack(account);
      };
    },
  };
}

async function signedInFrom(tx: Tx, account: string, ip: string): Promise<boolean> {
  const { rows } = await tx.raw(
    `select exists (select from sessions s join users u on u.id = s.user_id
      where lower(u.email) = ? and s.ip_address = ? and s.created_at > now() - interval '30 days') as known`,
    [account, ip],
  );
  return rows[0]?.known === true;
}
