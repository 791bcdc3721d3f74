import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { SCOPES } from '../../platform/db/tenant-scope.ts';
import { nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

const OrgAccess = z.enum(['all', 'selected', 'none']);
const Status = z.enum(['active', 'invited', 'disabled']);

export const User = z
  .object({
    id: z.uuid(),
    email: z.string(),
    name: z.string(),
    status: Status,
    emailVerified: z.boolean().describe('Whether a user has proved that they read the mail of this address.'),
    mfaEnabled: z.boolean(),
    scope: z.enum(SCOPES),
    partnerId: z.uuid().nullable(),
    orgId: z.uuid().nullable(),
    roleId: z.uuid(),
    roleName: z.string(),
    orgAccess: OrgAccess.nullable().describe('For users of a partner; null for others.'),
    orgIds: z.array(z.uuid()).describe('Used when orgAccess is selected.'),
    lastLoginAt: Timestamp.nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'User' });

export const UserQuery = PageQuery.extend({
  search: nfcText(255, 0)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the name or the e-mail address.'),
  orgId: z.uuid().optional().describe('Only users of this organization.'),
  status: Status.optional(),
});
export type UserQuery = z.infer<typeof UserQuery>;

const name = nfcText(255);

export const OwnChange = z.object({ name });
export type OwnChange = z.infer<typeof OwnChange>;

export const UserChange = z
  .strictObject({ name: name.optional(), status: z.enum(['active', 'disabled']).optional() })
  .refine(({ name, status }) => name !== undefined || status !== undefined, {
    path: ['name'],
    error: 'nothing to change: send name or status',
  });
export type UserChange = z.infer<typeof UserChange>;

const access = {
  orgAccess: OrgAccess.optional().describe('For users of a partner: which organizations they can access.'),
  orgIds: z.array(z.uuid()).max(1000).optional().describe('Used when orgAccess is selected.'),
};

export const RoleAssignment = z.strictObject({ roleId: z.uuid(), ...access });
export type RoleAssignment = z.infer<typeof RoleAssignment>;

export const NewInvitation = z.strictObject({
  email: EmailAddress,
  name,
  roleId: z.uuid(),
  ...access,
  orgId: z.uuid().optional().describe('Invites into this organization instead of the partner.'),
  partnerId: z
    .uuid()
    .optional()
    .describe(
      'Required in system scope for a role of a partner; in partner scope the own partner, if given.',
    ),
});
export type NewInvitation = z.infer<typeof NewInvitation>;

export const Invited = z.object({
  id: z.uuid(),
  email: z.string(),
  name: z.string(),
  status: Status,
  roleId: z.uuid(),
  inviteUrl: z.string().describe('Also sent by mail. Works once, for 7 days.'),
});

export const Resend = z.object({ userId: z.uuid() });
