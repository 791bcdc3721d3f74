import { AppError } from '../errors.ts';

interface PostgresError {
  code: string;
  constraint?: string;
}

/** Objection wraps the driver's error; under row level security its own classes lose the constraint's name. */
export function postgresError(error: unknown): PostgresError | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const native: unknown = 'nativeError' in error ? error.nativeError : error;
  if (typeof native !== 'object' || native === null || !('code' in native)) return undefined;
  const { code } = native;
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) return undefined;
  const constraint =
    'constraint' in native && typeof native.constraint === 'string' ? native.constraint : undefined;
  return constraint === undefined ? { code } : { code, constraint };
}

/** Whether the database could not be asked at all: then nothing else can be done either, and trying on is of no use. */
export function isDatabaseAway(error: unknown): boolean {
  const known = postgresError(error);
  if (known !== undefined) return /^(08|53|57P)/.test(known.code);
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return (
    error.name === 'KnexTimeoutError' ||
    ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE'].includes(code) ||
    /^Connection (terminated|ended)/.test(error.message)
  );
}

/** The few database failures that are an answer rather than a fault. `undefined` for all others. */
export function databaseAppError(error: unknown): AppError | undefined {
  const known = postgresError(error);
  if (known !== undefined) {
    if (known.code === '23505') {
      return new AppError('conflict', 'A record with these values already exists.', { cause: error });
    }
    if (known.code === '23503') {
      return new AppError(
        'conflict',
        'Something else still refers to this record, or it refers to one that does not exist.',
        { cause: error },
      );
    }
    if (known.code === '22021' || known.code === '22P05') {
      return new AppError('validation_failed', 'Text must not contain NUL characters.', { cause: error });
    }
    if (['57014', '55P03', '40P01'].includes(known.code)) {
      return new AppError('unavailable', 'The database took too long. Try again.', {
        cause: error,
        retryAfterMs: 1000,
      });
    }
    if (/^(08|53|57P)/.test(known.code)) {
      return new AppError('unavailable', 'The database is not available. Try again.', {
        cause: error,
        retryAfterMs: 1000,
      });
    }
    return undefined;
  }
  const name = error instanceof Error ? error.name : '';
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';
  if (name === 'KnexTimeoutError' || code === 'ECONNREFUSED' || code === 'ECONNRESET') {
    return new AppError('unavailable', 'The database is not available. Try again.', {
      cause: error,
      retryAfterMs: 1000,
    });
  }
  return undefined;
}

/** Turns the violation of one unique constraint into the answer that names its field. */
export async function namingConflict<T>(
  work: PromiseLike<T>,
  constraint: string,
  path: string,
  sentence: string,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (postgresError(error)?.constraint !== constraint) throw error;
    throw new AppError('conflict', sentence, {
      details: [{ path, message: 'must be unique' }],
      cause: error,
    });
  }
}
