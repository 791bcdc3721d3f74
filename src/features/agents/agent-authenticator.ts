import type { DeviceHub } from '../../hub/index.ts';
import type { AgentCredentials, RefusedVerdict } from '../../hub/ports.ts';
import { AppError } from '../../platform/errors.ts';
import type { AgentAuthenticator } from '../../platform/http/authentication.ts';
import { RequestBudget } from '../../platform/request-budget.ts';

/** The budget of one device on one server: more than an agent needs that catches up on logs as fast as it can. */
const BUDGET = { requests: 200, windowMs: 10_000 };

/** Agents over plain HTTP: let in and turned away by the same verdict as at the handshake of a socket. */
export function createAgentAuthenticator(
  credentials: AgentCredentials,
  hub: Pick<DeviceHub, 'disconnect'>,
): AgentAuthenticator {
  const budget = new RequestBudget(BUDGET);
  return {
    async authenticate(bearer) {
      const verdict = await credentials.verify(bearer).catch(lookupFailed);
      if (!verdict.ok) throw refusal(verdict.code);
      const retryAfterMs = budget.spend(verdict.identity.deviceId);
      if (retryAfterMs !== undefined) {
        throw new AppError('rate_limited', 'This device sends too many requests. Try again later.', {
          retryAfterMs,
        });
      }
      // On a socket the newer connection ends the older one; here nothing else does.
      if (verdict.isFirstUse === true) hub.disconnect(verdict.identity.deviceId);
      return { kind: 'agent', ...verdict.identity };
    },
  };
}

function refusal(code: RefusedVerdict['code']): AppError {
  switch (code) {
    case 'TENANT_INACTIVE':
      return new AppError('tenant_inactive', 'The organization of this device is not active.');
    case 'DECOMMISSIONED':
      return new AppError('unauthenticated', 'This device has been decommissioned.');
    case 'UNAUTHENTICATED':
      return new AppError('unauthenticated', 'The agent token is not valid.');
    default:
      return code satisfies never;
  }
}

/** The lookup failed: answer 503, so that the agent retries. */
function lookupFailed(error: unknown): never {
  throw new AppError('unavailable', 'Service temporarily unavailable', { cause: error, retryAfterMs: 5000 });
}
