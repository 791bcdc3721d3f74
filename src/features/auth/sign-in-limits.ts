import { addressKey } from '../../email-address.ts';
import type { ClientInfo, WithSystem } from '../../platform/context.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { AppError } from '../../platform/errors.ts';
import {
  addressLimiter,
  clientLimit,
  countedAddress,
  networkOf,
} from '../../platform/http/client-address.ts';
import { signedInFrom } from './auth.queries.ts';

/** Password attempts allowed: from one address, on one account from one address, and on one account from anywhere. */
const BY_ADDRESS = { points: 30, seconds: 300 };
const BY_ACCOUNT_AND_ADDRESS = { points: 10, seconds: 900 };
const BY_ACCOUNT = { points: 50, seconds: 900 };
/** Mails to one mailbox, and mails requested from one network address. */
const MAILS_TO = { points: 3, seconds: 3600 };
const MAILS_FROM = { points: 20, seconds: 3600 };
/** Guesses at the password or code of a signed-in user, such as with a stolen access token. */
const OWN_SECRETS = { points: 10, seconds: 900 };

/**
 * For each public route that only looks up the hash of a token, and one network: a whole office opens its dashboards.
 */
const TOKEN_REQUESTS = { points: 600, seconds: 60 };
/** Challenges for passkeys that are asked for without a sign-in. Each stores a row for some minutes. */
const PASSKEY_CHALLENGES = { points: 300, seconds: 60 };

export type TokenLimits = ReturnType<typeof tokenLimits>;

/** @param limits  of this process: sessions go on while Redis is away */
export function tokenLimits(limits: RateLimits) {
  const counted = (name: string, limit = TOKEN_REQUESTS) => clientLimit(limits, name, limit);
  return {
    refresh: counted('refresh'),
    logout: counted('logout'),
    invitePreview: counted('invite-preview'),
    resetPassword: counted('reset-password'),
    passkeyChallenge: counted('passkey-challenge', PASSKEY_CHALLENGES),
  };
}

export type SignInLimits = ReturnType<typeof signInLimits>;

export function signInLimits(limits: RateLimits) {
  const byAddress = addressLimiter(limits, 'login-address', BY_ADDRESS);
  const byBoth = limits.limiter('login-account-address', BY_ACCOUNT_AND_ADDRESS);
  const byAccount = limits.limiter('login-account', BY_ACCOUNT);

  const mailsTo = limits.limiter('mail-to', MAILS_TO);
  const mailsFrom = addressLimiter(limits, 'mail-from', MAILS_FROM);

  return {
    /** Counted by user before the password or code is checked, and reset once it was correct. */
    ownSecrets: limits.limiter('own-secrets', OWN_SECRETS),

    /**
     * Counts an attempt with a passkey before it is checked: by address, together with those with a password. Throws
     * `rate_limited`. Once the passkey has named its person, `of` counts for the account from that address. The attempts
     * on an account from anywhere are not counted, because nobody guesses a signature: guesses at the password must not
     * close the way by the passkey.
     */
    async beforePasskey(client: ClientInfo) {
      const address = countedAddress(client);
      if (address !== undefined) await byAddress.take(address);
      let both: string | undefined;
      return {
        of: async (userId: string): Promise<void> => {
          both = `${userId} ${networkOf(address ?? client.ip)}`;
          await byBoth.take(both);
        },
        /** Call it when the passkey was accepted: the attempt is then not counted. */
        uncount: async (): Promise<void> => {
          if (address !== undefined) await byAddress.giveBack(address);
          if (both !== undefined) await byBoth.forget(both);
        },
      };
    },

    /** Counts a mail that can be requested without an account, whether or not the address has an account. Throws `rate_limited`. */
    async beforeMail(email: string, client: ClientInfo): Promise<void> {
      const address = countedAddress(client);
      if (address !== undefined) await mailsFrom.take(address);
      await mailsTo.take(addressKey(email));
    },

    /**
     * Counts an attempt before the password is checked, so that parallel attempts count too. Throws `rate_limited`.
     * An account under attack is closed to unknown networks only. From a network where its user signed in lately it stays
     * open, so a user cannot be locked out by failures on purpose.
     * Behind a proxy that is not configured, or that hides addresses, a client is only known by what the proxy reports: then no address counts as
     * the user's own, and no limit counts all clients of the proxy together.
     * @returns a function to call when the password was correct: the attempt is then not counted
     */
    async beforeTry(email: string, client: ClientInfo, withSystem: WithSystem): Promise<() => Promise<void>> {
      const account = addressKey(email);
      const address = countedAddress(client);
      const both = `${account} ${networkOf(address ?? client.ip)}`;
      if (address !== undefined) await byAddress.take(address);
      await byBoth.take(both);
      const isClosed = await byAccount.isSpent(account);
      if (!isClosed) {
        await byAccount.take(account);
      } else if (
        client.unnamedProxy !== undefined ||
        client.unreadable !== undefined ||
        !(await withSystem('recent sign-in network', (tx) => signedInFrom(tx, email, client.ip)))
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
