import { z } from 'zod';
import { SCOPES } from '../../platform/db/tenant-scope.ts';
import { nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { holds } from '../../platform/context.ts';

/** All permissions. A permission is `<resource>:<action>`, `<resource>:*` or `*:*`. */
export const CATALOGUE = {
  organizations: ['read', 'write', 'delete'],
  sites: ['read', 'write', 'delete'],
  users: ['read', 'write', 'delete', 'invite'],
  devices: ['read', 'write', 'delete', 'execute', 'terminal'],
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

export const Role = z
  .object({
    id: z.uuid(),
    scope: z.enum(SCOPES),
    partnerId: z.uuid().nullable(),
    orgId: z.uuid().nullable(),
    name: z.string(),
    description: z.string().nullable(),
    permissions: z.array(z.string()),
    isSystem: z.boolean(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Role' });

/** One that is known, wildcards included. */
export const Permission = z
  .string()
  .max(100)
  .refine(isPermission, { error: ({ input }) => `${JSON.stringify(input)} is not a known permission` });

const Permissions = z
  .array(Permission)
  .max(PERMISSIONS.length)
  .transform((list) => [...new Set(list)].sort());

const name = nfcText(100);

const description = nfcText(500, 0).nullable();

export const NewRole = z.strictObject({
  name,
  description: description.optional(),
  scope: z.enum(SCOPES).optional().describe('Whom it is for; the caller’s own scope when left out.'),
  permissions: Permissions,
});
export type NewRole = z.infer<typeof NewRole>;

export const RoleChange = z
  .strictObject({
    name: name.optional(),
    description: description.optional(),
    permissions: Permissions.optional(),
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), {
    path: ['name'],
    error: 'nothing to change: send name, description or permissions',
  });
export type RoleChange = z.infer<typeof RoleChange>;

export const RoleQuery = PageQuery.extend({ scope: z.enum(SCOPES).optional() });
export type RoleQuery = z.infer<typeof RoleQuery>;

export const PermissionCatalog = z.object({
  data: z.array(z.object({ resource: z.string(), actions: z.array(z.string()) })),
  permissions: z.array(z.string()).describe('Everything that a role can hold, wildcards included.'),
});

/**
 * Returns the permissions of `wanted` that go beyond `held`: a user cannot grant, or touch in others, what they do not
 * hold themselves.
 */
export function exceeds(held: ReadonlySet<string>, wanted: Iterable<string>): string[] {
  return [...wanted].filter((permission) => !holds(held, permission));
}
