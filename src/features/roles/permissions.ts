import { holds } from '../../platform/context.ts';

/** What can be allowed. A permission is `<resource>:<action>`, `<resource>:*` or `*:*`. */
export const CATALOGUE = {
  organizations: ['read', 'write', 'delete'],
  sites: ['read', 'write', 'delete'],
  users: ['read', 'write', 'delete', 'invite'],
  devices: ['read', 'write', 'delete', 'execute'],
  scripts: ['read', 'write', 'delete', 'execute'],
  alerts: ['read', 'write', 'delete'],
  backup: ['read', 'write', 'delete', 'execute'],
  filters: ['read', 'write', 'delete'],
  audit: ['read', 'export'],
  recovery: ['read', 'write', 'execute', 'export'],
  agents: ['read', 'write', 'delete'],
  webhooks: ['read', 'write', 'delete'],
} as const satisfies Record<string, readonly string[]>;

export const EVERYTHING = '*:*';

/** Every permission that a role can hold, wildcards included. */
export const PERMISSIONS: readonly string[] = [
  EVERYTHING,
  ...Object.entries(CATALOGUE).flatMap(([resource, actions]) => [
    `${resource}:*`,
    ...actions.map((action) => `${resource}:${action}`),
  ]),
];
const known = new Set(PERMISSIONS);

export const isPermission = (text: string): boolean => known.has(text);

/** Those of `wanted` that go beyond `held`: nobody grants, or touches in others, what they do not hold themselves. */
export function exceeds(held: ReadonlySet<string>, wanted: Iterable<string>): string[] {
  return [...wanted].filter((permission) => !holds(held, permission));
}
