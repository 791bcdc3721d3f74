import type { AgentCaller, Caller } from '../context.ts';
import type { Scope } from '../db/tenant-scope.ts';
import type { Tx } from '../db/transaction.ts';
import type { Logger } from '../logger.ts';
import type { AuditNote } from './route.ts';

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
  /** `success` where it is left out. */
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
