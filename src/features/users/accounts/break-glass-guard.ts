import type { Tx } from '../../../platform/db/transaction.ts';
import type { Tenant } from './membership.queries.ts';

/** Keeps the way into a tenant that remains when its identity provider fails. Single sign-on implements it. */
export interface BreakGlassGuard {
  /**
   * Call it after a change by which a member may lose the way in by password. Throws `conflict`, which rolls the change
   * back, where nobody would be left who has it although single sign-on is enforced.
   */
  assertRemains(tx: Tx, member: { id: string } & Omit<Tenant, 'scope'>): Promise<void>;
}
