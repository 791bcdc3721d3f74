import { clock } from '../../../clock.ts';
import type { Caller, ClientInfo } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { addressList, contains } from '../../../platform/http/client-address.ts';
import type { Logger } from '../../../platform/logger.ts';
import { failClosed } from './session.service.ts';

/** The addresses that a partner's users may connect from (SPEC 5.8). */

const WARN_EVERY_MS = 60_000;
/** By partner; cleared when it grows too large, so that a partner may be warned about again. */
const warnedAt = new Map<string | null, number>();
const WARNED_MAX = 1000;

/**
 * Throws IP_NOT_ALLOWED for an address that is not on the list of the caller's partner: 401 before tokens are issued,
 * 403 on a request. An address that cannot be trusted passes, with a warning once a minute for each partner (SPEC 5.8). One
 * that a trusted proxy names in a form that cannot be read does not pass: whoever can hide an address would be past the list.
 */
export function assertAddressAllowed(
  caller: Caller,
  client: ClientInfo,
  log: Logger,
  at: 'sign-in' | 'request',
): void {
  if (caller.ipAllowlist.length === 0) return;
  const code = at === 'sign-in' ? 'ip_not_allowed_at_sign_in' : 'ip_not_allowed';
  if (client.unreadable !== undefined) {
    const { header } = client.unreadable;
    throw new AppError(
      code,
      `Your IP address is not allowed for this account: the proxy names it in ${header} in a form that cannot be read.`,
    );
  }
  if (!client.trusted) {
    const { partnerId } = caller;
    if (clock.monotonic() - (warnedAt.get(partnerId) ?? Number.NEGATIVE_INFINITY) > WARN_EVERY_MS) {
      if (warnedAt.size >= WARNED_MAX) warnedAt.clear();
      warnedAt.set(partnerId, clock.monotonic());
      log.warn({ partnerId, ip: client.ip }, 'auth.ip_allowlist_not_enforced');
    }
    return;
  }
  if (contains(listOf(caller.ipAllowlist), client.ip)) return;
  throw new AppError(code, 'Your IP address is not allowed for this account.');
}

/** Compiled lists. */
const compiled = new Map<string, ReturnType<typeof addressList>>();
const COMPILED_MAX = 500;

function listOf(entries: readonly string[]): ReturnType<typeof addressList> {
  const key = entries.join(' ');
  const known = compiled.get(key);
  if (known !== undefined) return known;
  if (compiled.size >= COMPILED_MAX) compiled.clear();
  const list = compile(entries);
  compiled.set(key, list);
  return list;
}

function compile(entries: readonly string[]): ReturnType<typeof addressList> {
  try {
    return addressList(entries);
  } catch (error) {
    return failClosed(error);
  }
}
