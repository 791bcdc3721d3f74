import type { Scope } from '../db/tenant-scope.ts';

const EVERY_SCOPE = ['organization', 'partner', 'system'] as const satisfies readonly Scope[];

/** Access for callers of every scope who hold a permission such as `sites:read`, with API keys among them. */
export const everyScope = <const P extends string>(permission: P) => ({ scopes: EVERY_SCOPE, permission });

/**
 * The same for people only; API keys are refused. For whatever gives people rights: a leaked key must not create an
 * account that outlives it.
 */
export const peopleOfEveryScope = <const P extends string>(permission: P) => ({
  ...everyScope(permission),
  person: true as const,
});
