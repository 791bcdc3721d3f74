import type { Request, RequestHandler } from 'express';
import type { Db } from '../../db/pool.ts';
import { withTenant } from '../../db/transaction.ts';
import { AppError } from '../../errors.ts';
import type { AuditTrail } from '../audit.ts';
import { requestState } from '../request-state.ts';
import type { AnyRoute } from '../route.ts';

/** Wraps a step of an audited row: what it refuses somebody who is known (403) is in the trail too, as `denied`. */
export function noteDenials(
  row: AnyRoute,
  { db, audit }: { db: Db; audit: AuditTrail },
  step: RequestHandler,
): RequestHandler {
  if (row.audit === undefined) return step;
  return async (request, response, next) => {
    try {
      await step(request, response, next);
    } catch (error) {
      if (error instanceof AppError && error.status === 403) await record(row, request, { db, audit }, error);
      throw error;
    }
  };
}

/** In a transaction of its own, since that of the deed is undone. The refusal stands, whether or not it is written. */
async function record(
  row: AnyRoute,
  request: Request,
  { db, audit }: { db: Db; audit: AuditTrail },
  error: AppError,
): Promise<void> {
  const state = requestState(request);
  const { caller } = state;
  if (row.audit === undefined || caller === undefined) return;
  const { action, resource: resourceType } = row.audit;
  const id = request.params['id'];
  try {
    await withTenant(db, caller, (tx) =>
      audit.record(tx, {
        action,
        resourceType,
        ...(typeof id === 'string' ? { resourceId: id } : {}),
        details: { code: error.wireCode },
        actor: caller,
        state,
        result: 'denied',
        errorMessage: error.message,
      }),
    );
    audit.committed();
  } catch (fault) {
    state.log.error({ err: fault, requestId: state.requestId, action }, 'audit.denial_not_written');
  }
}
