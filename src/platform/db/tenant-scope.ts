export const SCOPES = ['system', 'partner', 'organization'] as const;
export type Scope = (typeof SCOPES)[number];

/** The scope of a transaction: the part of a caller that the database enforces. */
export interface TenantScope {
  scope: Scope;
  userId: string | null;
  partnerId: string | null;
  /** `all`: every organization of the partner; `listed`: those in `orgIds`. */
  orgAccess: 'all' | 'listed';
  orgIds: readonly string[];
}
