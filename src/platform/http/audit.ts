import type { AgentCaller, Caller } from '../context.ts';
import type { Scope } from '../db/tenant-scope.ts';
import { type Tx, withTenant } from '../db/transaction.ts';
import type { Logger } from '../logger.ts';
import type { AuditNote, AnyRoute } from './route.ts';
import type { Request, RequestHandler } from 'express';
import type { Db } from '../db/pool.ts';
import { AppError } from '../errors.ts';
import { requestState } from './request-state.ts';

export interface AuditTrail {
  /** Writes an entry in the transaction of the action that it records. */
  record(tx: Tx, entry: AuditEntry): Promise<void>;
  /** The same for many at once, in one statement. */
  recordAll(tx: Tx, entries: readonly AuditEntry[]): Promise<void>;
  /** Called after a transaction with entries was committed. */
  committed(): void;
}

/** The actor, as far as an entry names it. */
export type AuditActor =
  | (Pick<Caller, 'kind' | 'userId' | 'apiKeyId' | 'email' | 'orgId' | 'partnerId'> & {
      /** Only `system` matters: users of that scope belong to no organization and no partner. */
      scope?: Scope;
    })
  | Pick<AgentCaller, 'kind' | 'deviceId' | 'orgId' | 'partnerId'>
  /** The server itself. */
  | { kind: 'system'; orgId: string | null; partnerId: string }
  /** The operator of the installation, in what belongs to no tenant. */
  | { kind: 'system'; scope: 'system'; orgId: null; partnerId: null };

export interface AuditEntry extends AuditNote {
  action: string;
  resourceType: string;
  actor: AuditActor;
  state: { client: { ip: string | null; userAgent: string | null }; log: Logger };
  /** `success` if it is left out. */
  result?: 'failure' | 'denied';
  errorMessage?: string;
}

/** The audit note of a record: which one it is, what it is called and whose it is. */
export const auditSubject = ({
  id,
  name,
  orgId = null,
  partnerId = null,
}: {
  id: string;
  name: string;
  orgId?: string | null;
  partnerId?: string | null;
}) => ({ orgId, partnerId, resourceId: id, resourceName: name });

/** Wraps a step of an audited row: what it refuses a known caller (403) is in the trail too, as `denied`. */
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

/**
 * Runs in a transaction of its own, because that of the request is rolled back. The refusal stands whether or not the
 * entry is written.
 */
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
