import type { Request } from 'express';
import { type AgentCaller, type Caller, type ClientInfo, holds } from '../context.ts';
import { AppError, notFound } from '../errors.ts';
import type { Access, PeopleAccess } from './route.ts';
import type { Scope } from '../db/tenant-scope.ts';

const EVERY_SCOPE = ['organization', 'partner', 'system'] as const satisfies readonly Scope[];

/** Access for callers of every scope who hold a permission such as `sites:read`, with API keys among them. */
export const everyScope = <const P extends string>(permission: P) => ({ scopes: EVERY_SCOPE, permission });

/**
 * The same for people only; API keys are refused. For whatever gives people rights: a leaked key must not create an
 * account that outlives it.
 */
export const peopleOfEveryScope = <const P extends string>(permission: P) => ({
  ...everyScope(permission),
  person: true as const,
});

/** What the pipeline needs from the features to identify the caller. */
export interface Authenticator {
  /** Returns the caller, or throws `unauthenticated`, or `partner_inactive` and the like. */
  authenticate(bearer: string, client: ClientInfo): Promise<Caller>;
}

/** The same of agents, which have tokens and a way in of their own, past the address list of people (SPEC 5.2). */
export interface AgentAuthenticator {
  /** Returns the agent that the token belongs to, or throws `unauthenticated`, `tenant_inactive` or `rate_limited`. */
  authenticate(bearer: string): Promise<AgentCaller>;
}

/** The token of `Authorization: Bearer …`, or `undefined`. */
export function bearerToken(request: Request): string | undefined {
  return /^Bearer ([\w.~+/=-]{1,4096})$/i.exec(request.get('authorization') ?? '')?.[1];
}

export async function signIn(
  request: Request,
  client: ClientInfo,
  authenticator: Authenticator,
): Promise<Caller> {
  const token = bearerToken(request);
  if (token === undefined) {
    throw new AppError('unauthenticated', 'Sign in: send "Authorization: Bearer <token>".');
  }
  return authenticator.authenticate(token, client);
}

/** The device of an agent. Throws `not_found` for any other id: to its token, no other device exists. */
export async function signInAgent(request: Request, authenticator: AgentAuthenticator): Promise<AgentCaller> {
  const token = bearerToken(request);
  if (token === undefined) {
    throw new AppError('unauthenticated', 'Send "Authorization: Bearer <agent token>".');
  }
  const agent = await authenticator.authenticate(token);
  const named = String(request.params['id']).toLowerCase();
  if (named !== agent.deviceId && named !== agent.enrolledAs) throw notFound('Device');
  request.params['id'] = agent.deviceId;
  return agent;
}

/** Throws `forbidden` unless the caller is of the right kind and has one of the scopes and the permission;
 * `mfa_required` unless the session has the second factor that the route asks for. */
export function authorize(caller: Caller, access: PeopleAccess): void {
  if (refusesKeys(access) && caller.kind === 'api_key') {
    throw new AppError('forbidden', 'An API key cannot do this. Sign in as a person.');
  }
  if (typeof access === 'string') return;
  if (!access.scopes.includes(caller.scope)) {
    throw new AppError('forbidden', `This needs ${access.scopes.join(' or ')} scope.`);
  }
  if (access.permission !== undefined && !holds(caller.permissions, access.permission)) {
    throw new AppError('forbidden', `This needs the permission ${access.permission}.`);
  }
  if (access.mfa === true && !caller.mfa) {
    throw new AppError('mfa_required', 'This needs a session that was opened with a second factor.');
  }
}

export function refusesKeys(access: Access): boolean {
  return access === 'person' || (typeof access === 'object' && access.person === true);
}
