import { randomBytes, createHmac } from 'node:crypto';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { SealBrokenError, sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';

/** The secrets that sign deliveries, in the form of the Standard Webhooks specification: `whsec_` and base64. */

export const SECRET_PREFIX = 'whsec_';
/** The specification asks for 24 to 64. */
const SECRET_BYTES = 32;

export const newSigningSecret = (): string =>
  `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`;

const CURRENT = { table: 'webhooks', column: 'sealed_secret', id: 'id' } as const satisfies SealedColumn;
const PREVIOUS = {
  table: 'webhooks',
  column: 'sealed_previous_secret',
  id: 'id',
} as const satisfies SealedColumn;

/** For `npm run rotate-secrets`. */
export const SEALED_WEBHOOK_SECRETS: readonly SealedColumn[] = [CURRENT, PREVIOUS];

const contextOf = ({ table, column }: SealedColumn, webhookId: string) =>
  sealContext(table, column, webhookId);

export interface StoredSecrets {
  id: string;
  sealedSecret: string;
  sealedPreviousSecret: string | null;
  previousSecretUntil: Date | null;
}

export const sealSecret = (encryptor: Encryptor, webhookId: string, secret: string): string =>
  encryptor.seal(secret, contextOf(CURRENT, webhookId));

/** The current secret, sealed again for the column of the previous one; null if it cannot be opened. */
export function sealAsPrevious(encryptor: Encryptor, { id, sealedSecret }: StoredSecrets): string | null {
  const current = opened(encryptor, sealedSecret, contextOf(CURRENT, id));
  return current === undefined ? null : encryptor.seal(current, contextOf(PREVIOUS, id));
}

/** The secrets that sign at this moment, the newest first. Empty if the current one cannot be opened. */
export function signingSecrets(
  encryptor: Encryptor,
  { id, sealedSecret, sealedPreviousSecret, previousSecretUntil }: StoredSecrets,
  now: Date,
): string[] {
  const current = opened(encryptor, sealedSecret, contextOf(CURRENT, id));
  if (current === undefined) return [];
  if (sealedPreviousSecret === null || previousSecretUntil === null || previousSecretUntil <= now) {
    return [current];
  }
  const previous = opened(encryptor, sealedPreviousSecret, contextOf(PREVIOUS, id));
  return previous === undefined ? [current] : [current, previous];
}

function opened(encryptor: Encryptor, sealed: string, context: string): string | undefined {
  try {
    return encryptor.open(sealed, context).text;
  } catch (error) {
    if (error instanceof SealBrokenError) return undefined;
    throw error;
  }
}

/**
 * The headers of a delivery, by the Standard Webhooks specification (https://www.standardwebhooks.com): a signature for
 * each secret over id, time and body.
 * @param at  the time of this attempt; receivers refuse an old one, so that a recorded request cannot be replayed
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
