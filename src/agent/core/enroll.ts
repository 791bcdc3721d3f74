import { clock } from '../../../clock.ts';
import { EnrollResponse, type EnrollRequest, type ReleaseKey } from '../../../protocol/index.ts';
import { type Credentials, TOKEN } from './credentials.ts';
import { hubPathOf } from '../server/server-address.ts';
import { printable } from '../plain-text.ts';
import { EXIT, post, type ServerAccess, ServerCallError } from '../server/server-call.ts';

export interface Enrollment {
  credentials: Credentials;
  /** Whose releases the agent installs; empty where the server names none. */
  releaseKeys: readonly ReleaseKey[];
  /** whether the device waits for approval. */
  isPending: boolean;
}

/**
 * Enrolls this machine with an enrollment key at the server with this base URL. Throws `ServerCallError`.
 * @param token  the token that the machine has there as a device already, which proves that it is that device
 */
export async function enroll(
  { server, network }: ServerAccess,
  request: EnrollRequest,
  warn: (message: string) => void = () => {},
  token?: string,
): Promise<Enrollment> {
  const base = server.replace(/\/+$/, '');
  const { status, body, refusal, retryAfterMs } = await post({ server: base, network }, '/agents/enroll', {
    body: request,
    ...(token === undefined ? {} : { token }),
  });
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
  const { deviceId, orgId, siteId, config } = answer.data;
  const hub = hubPathOf(base, config.hubUrl);
  if (hub.ignored !== undefined) {
    warn(
      `The server gives ${printable(hub.ignored)} as the address of its hub. The agent ignores it and uses ${base}, where it has enrolled.`,
    );
  }
  return {
    credentials: {
      server: base,
      hubPath: hub.path,
      deviceId,
      orgId,
      siteId,
      token: answer.data.token,
      heartbeatSeconds: config.heartbeatSeconds,
      enrolledAt: clock.date().toISOString(),
    },
    releaseKeys: config.releaseKeys ?? [],
    isPending: answer.data.status === 'pending',
  };
}
