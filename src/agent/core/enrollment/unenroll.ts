import { openNetwork } from '../../os/network/open-network.ts';
import { EXIT, post, ServerCallError } from '../server/server-call.ts';
import { loadCredentials, tokensOf } from './credentials.ts';

/**
 * Takes the device of this machine out of service at its server. A server that does not know the token any more has
 * done so before.
 * @returns what happened, as a sentence
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
