import { createHmac } from 'node:crypto';
import { SECRET_PREFIX } from './signing-secret.ts';

/**
 * The headers of a delivery, by the Standard Webhooks specification (https://www.standardwebhooks.com): a signature for
 * each secret over id, time and body.
 * @param at  of this attempt: receivers refuse one that is too old, so that nobody can send a recorded one again
 */
export function signedHeaders(
  secrets: readonly string[],
  { id, at, body }: { id: string; at: Date; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  return {
    'content-type': 'application/json; charset=utf-8',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets
      .map((secret) => `v1,${hmac(secret, `${id}.${timestamp}.${body}`)}`)
      .join(' '),
  };
}

const hmac = (secret: string, text: string): string =>
  createHmac('sha256', Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64'))
    .update(text)
    .digest('base64');
