import { postgresError } from '../../../platform/db/database-errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Conditions } from '../conditions.ts';

const DEAR_MS = 5000;
/** Filters of people have some ten conditions: their queries are spared two more messages to the database. */
const CHEAP_CONDITIONS = 100;

/**
 * Runs a query that asks for conditions. Where they are many, or hold regular expressions, it has less time than others,
 * and the error of a time-out says what to change.
 */
export async function withPatternTimeout<T>(
  tx: Tx,
  { patterns, count }: Pick<Conditions, 'patterns' | 'count'>,
  query: () => PromiseLike<T>,
): Promise<T> {
  if (patterns.length === 0 && count <= CHEAP_CONDITIONS) return query();
  await tx.raw(`set local statement_timeout = '${DEAR_MS}ms'`);
  try {
    const answer = await query();
    await tx.raw('set local statement_timeout to default');
    return answer;
  } catch (error) {
    throw patternError(error) ?? error;
  }
}

/** Whether Postgres takes the regular expressions: it has limits of its own. */
export async function assertPatternsCompile(
  tx: Tx,
  conditions: Pick<Conditions, 'patterns' | 'count'>,
): Promise<void> {
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
        details: [{ path: 'conditions', message: 'has a regular expression that is too large' }],
        cause: error,
      });
    case '57014':
      return new AppError(
        'unavailable',
        'The conditions take too long on so many devices. Use fewer or simpler ones, such as no regular expressions.',
        { cause: error },
      );
    default:
      return undefined;
  }
}
