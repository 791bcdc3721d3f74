import { useSyncExternalStore } from 'react';
import {
  accessToken,
  ApiError,
  call,
  dropTokens,
  holdTokens,
  onSessionEnd,
  send,
  type Answer,
  type Tokens,
} from './api/index.ts';

/** The signed-in person and their permissions. */
export type Me = Answer<'GET /auth/me'>;

export type SessionState =
  /** The page has just been opened and asks the server whether its cookie still holds. */
  | { state: 'opening' }
  | { state: 'unreachable' }
  | { state: 'signed_out'; ended: boolean; failure?: Error }
  | { state: 'signed_in'; me: Me }
  /** The address has a code of another person than the one who is signed in, who has to decide. */
  | { state: 'replacing'; me: Me; email: string; replace: () => Promise<void>; stay: () => void };

let current: SessionState = { state: 'opening' };
const watchers = new Set<() => void>();

function become(state: SessionState): void {
  current = state;
  if (state.state === 'signed_in') remember(true);
  if (state.state === 'signed_out') remember(false);
  for (const callback of watchers) callback();
}

onSessionEnd(() => become({ state: 'signed_out', ended: true }));

export function useSession(): SessionState {
  return useSyncExternalStore(
    (callback) => {
      watchers.add(callback);
      return () => watchers.delete(callback);
    },
    () => current,
  );
}

/** The person who is signed in. For components inside the frame, which is only shown to them. */
export function useMe(): Me {
  const session = useSession();
  if (session.state !== 'signed_in') throw new Error('This component is for people who are signed in.');
  return session.me;
}

/** The name of the single-use code behind the # of an address, which the browser never sends to a server (SPEC 7). */
const CODE = 'ssoCode';

/** Uses the single-use code of a single sign-on or a link, or the cookie of an earlier visit. */
export async function openSession(): Promise<void> {
  const code = takeCode();
  if (code === undefined && !isRemembered()) return become({ state: 'signed_out', ended: false });
  try {
    if (code === undefined) await resume();
    else await exchange(code, isRemembered() ? await presentPerson() : undefined);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (code !== undefined) become({ state: 'signed_out', ended: false, failure: error });
    else become(error.status === 401 ? { state: 'signed_out', ended: false } : { state: 'unreachable' });
  }
}

async function resume(): Promise<void> {
  if ((await accessToken()) === undefined) become({ state: 'signed_out', ended: false });
  else await readMe();
}

/** The user signed in in this browser, if any. */
async function presentPerson(): Promise<Me | undefined> {
  try {
    return (await accessToken()) === undefined ? undefined : await call('GET /auth/me', {});
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Signs in by a code. If another user is signed in, they are asked first, because anyone can send a link with a code. */
async function exchange(code: string, present: Me | undefined): Promise<void> {
  const begin = async (body: { code: string; signedInAs?: string }) =>
    beginSession(await send('POST /sso/exchange', { body }));
  if (present === undefined) return begin({ code });
  const stay = () => become({ state: 'signed_in', me: present });
  try {
    await begin({ code, signedInAs: present.user.id });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const email = otherPersonIn(error);
    if (email === undefined) return stay();
    become({ state: 'replacing', me: present, email, replace: () => begin({ code }), stay });
  }
}

/** The address of the person to whom the code belongs, if that is not the one who is signed in. */
function otherPersonIn({ details }: ApiError): string | undefined {
  if (typeof details !== 'object' || details === null || !('code' in details) || !('email' in details)) {
    return undefined;
  }
  const { code, email } = details;
  return code === 'OTHER_PERSON' && typeof email === 'string' ? email : undefined;
}

/** Takes the code out of the address, so that it is not kept in the browser history. */
function takeCode(): string | undefined {
  const { hash, pathname, search } = window.location;
  const code = new URLSearchParams(hash.slice(1)).get(CODE) ?? undefined;
  if (code !== undefined) window.history.replaceState(window.history.state, '', pathname + search);
  return code;
}

/** Begins the session for which the server has given tokens. */
export async function beginSession(tokens: Tokens): Promise<void> {
  holdTokens(tokens);
  await readMe();
}

/**
 * Whether this browser has had a session that was not ended here. Without it, the cookie need not be tried. If the
 * storage of the browser is off, it is tried.
 */
const REMEMBERED = 'muster-session';
function isRemembered(): boolean {
  try {
    return window.localStorage.getItem(REMEMBERED) !== null;
  } catch {
    return true;
  }
}
function remember(hasSession: boolean): void {
  try {
    if (hasSession) window.localStorage.setItem(REMEMBERED, 'yes');
    else window.localStorage.removeItem(REMEMBERED);
  } catch {
    // Then the cookie is tried each time.
  }
}

/** Reads name, scope and permissions again, as after a change of the own profile. */
export async function readMe(): Promise<void> {
  become({ state: 'signed_in', me: await call('GET /auth/me', {}) });
}

/** Ends the session on the server and here. */
export async function signOut(): Promise<void> {
  const token = await accessToken().catch(() => undefined);
  // Even if the server cannot be reached, the person leaves.
  await send('POST /auth/logout', {}, { token }).catch(() => undefined);
  dropTokens();
  become({ state: 'signed_out', ended: false });
}

/** Whether a set of permissions, which may have wildcards, contains one. The server decides; this only shows it. */
function holds(permissions: readonly string[], permission: string): boolean {
  const [resource] = permission.split(':');
  return permissions.some((held) => held === '*:*' || held === permission || held === `${resource}:*`);
}

export type Requirement = string | { permission?: string; scopes?: readonly Me['scope'][] };

/** Why the person may not do something, as a sentence; `undefined` if they may. */
export function refusalOf(me: Me, requirement: Requirement | undefined): string | undefined {
  if (requirement === undefined) return undefined;
  const { permission, scopes } = typeof requirement === 'string' ? { permission: requirement } : requirement;
  if (scopes !== undefined && !scopes.includes(me.scope)) {
    return `This needs an account of a ${scopes.map((scope) => SCOPE_NAMES[scope]).join(' or a ')}.`;
  }
  if (permission !== undefined && !holds(me.permissions, permission)) {
    return `This needs the permission "${permission}", which your role "${me.role.name}" does not have.`;
  }
  return undefined;
}

const SCOPE_NAMES = { system: 'system administrator', partner: 'provider', organization: 'customer' };

/** As `refusalOf`, for the person who is signed in. */
export function useRefusal(requirement: Requirement | undefined): string | undefined {
  return refusalOf(useMe(), requirement);
}
