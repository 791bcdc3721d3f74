import { randomBytes } from 'node:crypto';
import { type SealedColumn } from '../../../platform/secrets/reseal.ts';
import { sealContext, type Sealer } from '../../../platform/secrets/sealed.ts';

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

export const sealSecret = (sealer: Sealer, webhookId: string, secret: string): string =>
  sealer.seal(secret, contextOf(CURRENT, webhookId));

/** The current secret, sealed for its place as the previous one. */
export const sealAsPrevious = (sealer: Sealer, { id, sealedSecret }: StoredSecrets): string =>
  sealer.seal(sealer.open(sealedSecret, contextOf(CURRENT, id)).text, contextOf(PREVIOUS, id));

/** The secrets that sign at this moment, the newest first. */
export function signingSecrets(
  sealer: Sealer,
  { id, sealedSecret, sealedPreviousSecret, previousSecretUntil }: StoredSecrets,
  now: Date,
): string[] {
  const current = sealer.open(sealedSecret, contextOf(CURRENT, id)).text;
  if (sealedPreviousSecret === null || previousSecretUntil === null || previousSecretUntil <= now) {
    return [current];
  }
  return [current, sealer.open(sealedPreviousSecret, contextOf(PREVIOUS, id)).text];
}
