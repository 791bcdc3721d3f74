import type { Me } from './session.ts';
import { useMe } from './session.ts';

/** Whether a set of permissions, which may have wildcards, contains one. The server decides; this only shows it. */
export function holds(permissions: readonly string[], permission: string): boolean {
  const [resource] = permission.split(':');
  return permissions.some((held) => held === '*:*' || held === permission || held === `${resource}:*`);
}

export type Requirement = string | { permission?: string; scopes?: readonly Me['scope'][] };

/** Why the person may not do something, as a sentence; `undefined` where they may. */
export function refusalOf(me: Me, requirement: Requirement | undefined): string | undefined {
  if (requirement === undefined) return undefined;
  const { permission, scopes } = typeof requirement === 'string' ? { permission: requirement } : requirement;
  if (scopes !== undefined && !scopes.includes(me.scope)) {
    return `This needs an account of a ${scopes.map((scope) => SCOPE_NAMES[scope]).join(' or a ')}.`;
  }
  if (permission !== undefined && !holds(me.permissions, permission)) {
    return `This needs the permission "${permission}", which your role "${me.role.name}" does not have.`;
  }
  return undefined;
}

const SCOPE_NAMES = { system: 'system administrator', partner: 'provider', organization: 'customer' };

/** As `refusalOf`, for the person who is signed in. */
export function useRefusal(requirement: Requirement | undefined): string | undefined {
  return refusalOf(useMe(), requirement);
}
