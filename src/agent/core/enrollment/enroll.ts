import { EnrollResponse, type EnrollRequest } from '../../../protocol/index.ts';
import { type Credentials, TOKEN } from './credentials.ts';
import { hubPathOf } from '../server/server-address.ts';
import { printable } from '../plain-text.ts';
import { EXIT, post, ServerCallError } from '../server/server-call.ts';

/** Enrolls this machine with an enrollment key at `server` (its base URL). Throws `ServerCallError`. */
export async function enroll(
  server: string,
  request: EnrollRequest,
  warn: (message: string) => void = () => {},
): Promise<Credentials> {
  const base = server.replace(/\/+$/, '');
  const { status, body, refusal, retryAfterMs } = await post(base, '/agents/enroll', { body: request });
  if (refusal !== undefined) {
    throw status === 401
      ? new ServerCallError(EXIT.badKey, `${refusal} Request a new enrollment key.`)
      : new ServerCallError(EXIT.refused, `The server refused: ${refusal}`, retryAfterMs);
  }
  const answer = EnrollResponse.extend({ token: TOKEN }).safeParse(body);
  if (!answer.success) {
    throw new ServerCallError(
      EXIT.notReached,
      `The response of ${base} is not an enrollment. Is it a Muster server?`,
    );
  }
  const { deviceId, orgId, siteId, token, config } = answer.data;
  const hub = hubPathOf(base, config.hubUrl);
  if (hub.ignored !== undefined) {
    warn(
      `The server gives ${printable(hub.ignored)} as the address of its hub. The agent ignores it and uses ${base}, where it has enrolled.`,
    );
  }
  return {
    server: base,
    hubPath: hub.path,
    deviceId,
    orgId,
    siteId,
    token,
    heartbeatSeconds: config.heartbeatSeconds,
    enrolledAt: new Date().toISOString(),
  };
}
