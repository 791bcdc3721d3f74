import { type EngineCode, EngineError } from '../../../engine/index.ts';
import { AppError, type ErrorCode } from '../../../platform/errors.ts';

/** How the failures of the server's own engine are answered. All others mean that it cannot be done now. */
const CODES: Partial<Record<EngineCode, ErrorCode>> = {
  FILE_SYSTEM_DAMAGED: 'conflict',
  FILE_SYSTEM_UNSUPPORTED: 'conflict',
  PATH_MISSING: 'not_found',
  SNAPSHOT_MISSING: 'not_found',
  REPOSITORY_LOCKED: 'conflict',
  REPOSITORY_DAMAGED: 'conflict',
  WRONG_KEY: 'conflict',
  ENGINE_MISSING: 'server_engine_missing',
};

/** The codes that `answeringFailures` gives beside `not_found`. */
export const ENGINE_ERRORS = ['conflict', 'unavailable'] as const satisfies readonly ErrorCode[];

/** Runs work of the engine, whose failures become answers; `details.code` is the engine's own. */
export async function answeringFailures<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asAnswer(error);
  }
}

export function asAnswer(error: unknown): unknown {
  if (!(error instanceof EngineError)) return error;
  const { code, message } = error;
  return new AppError(CODES[code] ?? 'unavailable', message, { details: { code }, cause: error });
}
