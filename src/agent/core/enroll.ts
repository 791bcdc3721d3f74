import { clock } from '../../clock.ts';
import { EnrollResponse, type EnrollRequest, type ReleaseKey } from '../../protocol/index.ts';
import { openNetwork } from '../os/network/network.ts';
import { type Credentials, TOKEN, loadCredentials, tokensOf } from './settings.ts';
import { printable } from './plain-text.ts';
import { hubPathOf, EXIT, post, type ServerAccess, ServerCallError } from './server-call.ts';

export interface Enrollment {
  credentials: Credentials;
  /** Public keys of trusted releases; empty if the server has none. */
  releaseKeys: readonly ReleaseKey[];
  /** Whether the device waits for approval. */
  isPending: boolean;
}

/**
 * Enrolls this machine with an enrollment key at the server with this base URL. Throws `ServerCallError`.
 * @param token  the token of the machine's existing device there, which proves that it is that device
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

/**
 * Takes the device of this machine out of service at its server. If the server no longer knows the token, that has
 * happened before.
 * @returns the result, as a sentence
 */
export async function leaveServer(dataDir: string): Promise<string> {
  const credentials = await loadCredentials(dataDir);
  if (credentials === undefined) return 'This machine was not enrolled.';
  const { server, deviceId } = credentials;
  const network = await openNetwork(dataDir);
  try {
    for (const token of tokensOf(credentials)) {
      const path = `/agents/${encodeURIComponent(deviceId)}/unenroll`;
      const answer = await post({ server, network }, path, { token });
      const done = `The device ${deviceId} was taken out of service at ${server}.`;
      if (answer.refusal === undefined) return done;
      if (answer.status !== 401 && answer.status !== 404) {
        throw new ServerCallError(EXIT.refused, `The server refused: ${answer.refusal}`, answer.retryAfterMs);
      }
    }
    return `The server ${server} does not know this device any more.`;
  } finally {
    network.close();
  }
}
