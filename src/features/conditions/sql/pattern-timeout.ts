import { postgresError } from '../../../platform/db/database-errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';

const TIMEOUT_MS = 5000;
/** Typical filters have about ten conditions; up to this number no time limit is set, which saves two messages. */
const CHEAP_CONDITIONS = 100;

interface QueryCost {
  patterns: readonly string[];
  count: number;
}

/**
 * Runs a query with conditions. If they are many or contain regular expressions, the query gets a shorter time limit, and
 * the error of a time-out says how to simplify the conditions.
 */
export async function withPatternTimeout<T>(
  tx: Tx,
  { patterns, count }: QueryCost,
  query: () => PromiseLike<T>,
): Promise<T> {
  if (patterns.length === 0 && count <= CHEAP_CONDITIONS) return query();
  await tx.raw(`set local statement_timeout = '${TIMEOUT_MS}ms'`);
  try {
    const answer = await query();
    await tx.raw('set local statement_timeout to default');
    return answer;
  } catch (error) {
    throw patternError(error) ?? error;
  }
}

/** Throws if Postgres, which has limits of its own, rejects one of the regular expressions. */
export async function assertPatternsCompile(tx: Tx, conditions: QueryCost): Promise<void> {
  const patterns = [...new Set(conditions.patterns)];
  if (patterns.length === 0) return;
  await withPatternTimeout(tx, conditions, () =>
    tx.raw(`select count(*) from unnest(?::text[]) as given (pattern) where '' ~ given.pattern`, [patterns]),
  );
}

function patternError(error: unknown): AppError | undefined {
  switch (postgresError(error)?.code) {
    case '2201B':
      return new AppError('validation_failed', 'A regular expression is too large for the database.', {
        details: [{ path: 'conditions', message: 'contains a regular expression that is too large' }],
        cause: error,
      });
    case '57014':
      return new AppError(
        'unavailable',
        'Evaluating the conditions takes too long. Use fewer or simpler conditions, or avoid regular expressions.',
        { cause: error },
      );
    default:
      return undefined;
  }
}
