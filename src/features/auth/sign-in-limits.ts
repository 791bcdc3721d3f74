import type { Tx } from '../../platform/db/transaction.ts';
import type { ClientInfo, WithSystem } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { AppError } from '../../platform/errors.ts';
import { addressLimiter } from '../../platform/http/address-limits.ts';
import { countedAddress, networkOf } from '../../platform/http/client-address.ts';

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
  const byAddress = addressLimiter(limits, 'login-address', BY_ADDRESS);
  const byBoth = limits.limiter('login-account-address', BY_ACCOUNT_AND_ADDRESS);
  const byAccount = limits.limiter('login-account', BY_ACCOUNT);

  const mailsTo = limits.limiter('mail-to', MAILS_TO);
  const mailsFrom = addressLimiter(limits, 'mail-from', MAILS_FROM);

  return {
    /** By person. Taken before the password or code is looked at, and forgotten once it was right. */
    ownSecrets: limits.limiter('own-secrets', OWN_SECRETS),

    /** Counts a mail that anybody can ask for, whether or not someone has the address. Throws `rate_limited`. */
    async beforeMail(email: string, client: ClientInfo): Promise<void> {
      const address = countedAddress(client);
      if (address !== undefined) await mailsFrom.take(address);
      await mailsTo.take(email.toLowerCase());
    },

    /**
     * Counts a try before the password is looked at, so that tries in parallel count too. Throws `rate_limited`.
     * An account that strangers keep trying is closed to strangers only: from an address where its holder has been
     * signed in lately it stays open, so nobody can lock a person out by failing on purpose.
     * Behind a proxy that nobody configured a client is only who the proxy says, or nobody: then no address is trusted
     * to be its holder's, and no limit counts all clients of the proxy as one.
     * @returns to be called when the password was right: then this try does not count against anyone
     */
    async beforeTry(email: string, client: ClientInfo, withSystem: WithSystem): Promise<() => Promise<void>> {
      const account = email.toLowerCase();
      const address = countedAddress(client);
      const both = `${account} ${networkOf(address ?? client.ip)}`;
      if (address !== undefined) await byAddress.take(address);
      await byBoth.take(both);
      const isClosed = await byAccount.isSpent(account);
      if (!isClosed) {
        await byAccount.take(account);
      } else if (
        client.unnamedProxy !== undefined ||
        !(await withSystem('whether a person signed in from here lately', (tx) =>
          signedInFrom(tx, account, client.ip),
        ))
      ) {
        throw new AppError('rate_limited', 'Too many attempts. Try again later.', { retryAfterMs: 900_000 });
      }
      return async () => {
        if (address !== undefined) await byAddress.giveBack(address);
        await byBoth.forget(both);
        if (!isClosed) await byAccount.giveBack(account);
      };
    },
  };
}

async function signedInFrom(tx: Tx, account: string, ip: string): Promise<boolean> {
  const { rows } = await tx.raw(
    `select distinct s.ip_address from sessions s join users u on u.id = s.user_id
    where lower(u.email) = ? and s.created_at > now() - interval '30 days' limit 1000`,
    [account],
  );
  return rows.some((row: { ip_address: string | null }) => networkOf(row.ip_address ?? '') === networkOf(ip));
}
