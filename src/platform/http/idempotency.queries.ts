import { createHash } from 'node:crypto';
import type { Request } from 'express';
import type { RetentionRule } from '../db/retention-rule.ts';
import type { Tx } from '../db/transaction.ts';
import { AppError, invalid } from '../errors.ts';

const KEPT_DAYS = 1;

/** Keys of people who do not come back. The others are removed with the next key of the same person. */
export const idempotencyRetention: RetentionRule = {
  table: 'idempotency_keys',
  key: ['user_id', 'key'],
  days: KEPT_DAYS,
  isOver: (days) => `old.created_at < now() - make_interval(days => ${days})`,
};

/** A request that its sender may send again, by its `Idempotency-Key`: each key takes effect once (SHAPES 1). */
export interface OnceOnly {
  userId: string;
  key: string;
  requestHash: string;
}

const KEY = /^[\x21-\x7e]{1,255}$/;

/** `undefined` for a request without a key. Throws `validation_failed` for one that is no key. */
export function onceOnly(request: Request, userId: string, body: unknown): OnceOnly | undefined {
  const key = request.get('idempotency-key');
  if (key === undefined) return undefined;
  if (!KEY.test(key)) {
    throw invalid('headers.idempotency-key', 'must have 1 to 255 visible ASCII characters, without blanks');
  }
  const text = JSON.stringify([request.method, request.path, body]);
  return { userId, key, requestHash: createHash('sha256').update(text).digest('hex') };
}

/**
 * Takes the key, or returns the answer that was given to it before. A request that comes while the first is under way
 * waits for it. Keys are kept for 24 hours. Throws `conflict` for a key that was used for another request.
 */
export async function takeKey(
  tx: Tx,
  { userId, key, requestHash }: OnceOnly,
): Promise<{ answer: unknown } | undefined> {
  await tx.raw(
    'delete from idempotency_keys where user_id = ? and created_at < now() - make_interval(days => ?)',
    [userId, KEPT_DAYS],
  );
  const { rows: taken } = await tx.raw(
    `insert into idempotency_keys (user_id, key, request_hash) values (?, ?, ?) on conflict do nothing returning key`,
    [userId, key, requestHash],
  );
  if (taken.length > 0) return undefined;
  const { rows } = await tx.raw(
    'select request_hash, answer from idempotency_keys where user_id = ? and key = ?',
    [userId, key],
  );
  const before = rows[0] as { request_hash: string; answer: unknown } | undefined;
  if (before?.request_hash !== requestHash) {
    throw new AppError('conflict', 'This Idempotency-Key was used for another request.');
  }
  return { answer: before.answer };
}

/** Runs in the transaction of the request: if that is rolled back, there is no answer to repeat. */
export async function keepAnswer(tx: Tx, { userId, key }: OnceOnly, answer: unknown): Promise<void> {
  await tx.raw('update idempotency_keys set answer = ?::jsonb where user_id = ? and key = ?', [
    JSON.stringify(answer),
    userId,
    key,
  ]);
}
