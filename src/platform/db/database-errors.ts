import { AppError } from '../errors.ts';

interface PostgresError {
  code: string;
  constraint?: string;
}

/** Objection wraps the driver's error; under row level security its own classes lose the constraint's name. */
function nativeError(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'nativeError' in error ? error.nativeError : error;
}

/**
 * A server that is not the primary, or no longer. It has the code that Postgres gives to a write on such a server, and is
 * treated in the same way: as a database that is away, until the primary is found.
 */
export class NotPrimaryError extends Error {
  readonly code = READ_ONLY;

  constructor(reason: string) {
    super(`The server of the database is not the primary. ${reason}`);
    this.name = 'NotPrimaryError';
  }
}

/** A write in a transaction that only reads, which every transaction on a standby does. */
const READ_ONLY = '25006';

/** Whether the database could be asked, and takes no writes. */
export const isReadOnlyDatabase = (error: unknown): boolean => postgresError(error)?.code === READ_ONLY;

/** Whether a transaction that only reads, by our own will, has tried to write. */
export const isWriteWhileReading = (error: unknown): boolean =>
  isReadOnlyDatabase(error) && !(nativeError(error) instanceof NotPrimaryError);

export function postgresError(error: unknown): PostgresError | undefined {
  const native = nativeError(error);
  if (typeof native !== 'object' || native === null || !('code' in native)) return undefined;
  const { code } = native;
  // EPIPE is of the system, although it has five letters.
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || code === 'EPIPE') return undefined;
  const constraint =
    'constraint' in native && typeof native.constraint === 'string' ? native.constraint : undefined;
  return constraint === undefined ? { code } : { code, constraint };
}

/** Whether the database could not be asked at all: then nothing else can be done either, and trying on is of no use. */
export function isDatabaseAway(error: unknown): boolean {
  const known = postgresError(error);
  return known === undefined ? isLostConnection(nativeError(error)) : AWAY_CODES.test(known.code);
}

/** Connection failures, missing resources, a server that ends or starts, and one that is a standby. */
const AWAY_CODES = /^(08|53|57P|25006)/;

/** A conflict with another transaction, a deadlock, a lock that others held, and a statement that took too long. */
const PASSING_CODES: readonly string[] = ['40001', '40P01', '55P03', '57014'];

/** Whether the same transaction may succeed when it is run again. */
export function isWorthRepeating(error: unknown): boolean {
  return PASSING_CODES.includes(postgresError(error)?.code ?? '');
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
    if (PASSING_CODES.includes(known.code)) {
      return unavailable('The database took too long. Try again.', error);
    }
    if (known.code === READ_ONLY) {
      return unavailable('The database takes no writes at the moment. Try again.', error);
    }
    // 25P03 and 25P04: the server has ended a transaction that was open for too long.
    if (AWAY_CODES.test(known.code) || /^25P0[34]$/.test(known.code)) return databaseIsAway(error);
    return undefined;
  }
  return isLostConnection(nativeError(error)) ? databaseIsAway(error) : undefined;
}

const databaseIsAway = (cause: unknown) => unavailable('The database is not available. Try again.', cause);
const unavailable = (message: string, cause: unknown) =>
  new AppError('unavailable', message, { cause, retryAfterMs: 1000 });

/** Error codes of the system for a connection that was not made or was lost. */
const SYSTEM_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
]);
/** The messages of the driver and the pool, which give these errors no code. */
const CODELESS_MESSAGES: readonly string[] = [
  'Connection terminated',
  'Connection terminated unexpectedly',
  'Connection ended unexpectedly',
  'Client has encountered a connection error and is not queryable',
  'Client was closed and is not queryable',
  'timeout expired',
  'Query read timeout',
  // The pool was closed while a caller waited for a connection, or before.
  'aborted',
  'Unable to acquire a connection',
];

function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && typeof error.code === 'string') return SYSTEM_CODES.has(error.code);
  const { name, message } = error;
  // Knex puts the statement before the message, as in "ROLLBACK - Connection terminated".
  const isCodeless = CODELESS_MESSAGES.some((known) => message === known || message.endsWith(` - ${known}`));
  return name === 'KnexTimeoutError' || isCodeless;
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
