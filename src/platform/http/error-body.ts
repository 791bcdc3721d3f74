import type { ErrorRequestHandler, RequestHandler } from 'express';
import { z } from 'zod';
import { databaseAppError } from '../db/database-errors.ts';
import { AppError, notFound } from '../errors.ts';
import { requestState } from './request-state.ts';

/** The one body of every failure (SHAPES 1). */
export const ErrorBody = z
  .object({
    error: z.string().describe('A sentence for a person.'),
    code: z.string(),
    requestId: z.string(),
    details: z.unknown().optional(),
  })
  .meta({ id: 'Error' });
export type ErrorBody = z.infer<typeof ErrorBody>;

/** Turns whatever was thrown into an answer; what was not expected becomes a plain 500. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return (
    databaseAppError(error) ??
    bodyParserError(error) ??
    new AppError('internal', 'Something went wrong on the server.', { cause: error })
  );
}

/** All issues at once; each path begins with the part of the request it is in. */
export function validationError(issues: readonly z.core.$ZodIssue[]): AppError {
  const details = issues.map((issue) => ({ path: issue.path.join('.'), message: issue.message }));
  const first = details[0];
  const message = first === undefined ? 'The request is not valid.' : `${first.path}: ${first.message}`;
  return new AppError('validation_failed', message, { details });
}

/** The errors of Express and its body parser for a request that is not well formed. */
function bodyParserError(error: unknown): AppError | undefined {
  if (error instanceof URIError) return notFound('Route');
  if (typeof error !== 'object' || error === null) return undefined;
  if ('code' in error && typeof error.code === 'string' && error.code.startsWith('Z_')) {
    return new AppError(
      'validation_failed',
      'The body cannot be unpacked: it is not what Content-Encoding says.',
      {
        details: [{ path: 'body', message: 'must be packed as Content-Encoding says' }],
      },
    );
  }
  if (!('type' in error)) return undefined;
  switch (error.type) {
    case 'entity.parse.failed':
    case 'request.size.invalid':
    case 'request.aborted':
      return new AppError('validation_failed', 'The body is not valid JSON.', {
        details: [{ path: 'body', message: 'must be valid JSON' }],
      });
    case 'entity.too.large':
      return new AppError('payload_too_large', 'The body is larger than this route takes.');
    case 'encoding.unsupported':
    case 'charset.unsupported':
      return new AppError('unsupported_media_type', 'The body has an encoding that is not supported.');
    default:
      return undefined;
  }
}

export const errorHandler: ErrorRequestHandler = (thrown: unknown, request, response, next) => {
  const { requestId, log } = requestState(request);
  const error = toAppError(thrown);
  if (error.code === 'internal') {
    log.error({ err: thrown, requestId, method: request.method, path: request.path }, 'http.failed');
  }
  if (response.headersSent) {
    next(thrown);
    return;
  }
  if (error.retryAfterMs !== undefined || error.status === 429 || error.status === 503) {
    response.setHeader('Retry-After', String(Math.max(1, Math.ceil((error.retryAfterMs ?? 0) / 1000))));
  }
  response.status(error.status).json(bodyOfError(error, requestId));
};

export function bodyOfError(error: AppError, requestId: string): ErrorBody {
  const body: ErrorBody = { error: error.message, code: error.wireCode, requestId };
  if (error.details !== undefined) body.details = error.details;
  return body;
}

export const unknownRoute: RequestHandler = (request, _response, next) => {
  next(new AppError('not_found', `No such route: ${request.method} ${request.path}`));
};
