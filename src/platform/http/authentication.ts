import type { Request } from 'express';
import type { AgentCaller, Caller, ClientInfo } from '../context.ts';
import { holds } from '../context.ts';
import { AppError, notFound } from '../errors.ts';
import type { Access, PeopleAccess } from './route.ts';

/** What the pipeline needs from above to know who is calling. */
export interface Authenticator {
  /** Answers the caller, or throws `unauthenticated`, or `partner_inactive` and the like. */
  authenticate(bearer: string, client: ClientInfo): Promise<Caller>;
}

/** The same of agents, which have tokens and a way in of their own, past the address list of people (SPEC 5.2). */
export interface AgentAuthenticator {
  /** Answers whose token it is, or throws `unauthenticated`, `tenant_inactive` or `rate_limited`. */
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

/** Whose agent it is. To its token no other device exists: throws `not_found` for any other id. */
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
