import { z } from 'zod';
import { nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { DeviceQuery } from '../devices/index.ts';

const GroupType = z.enum(['static', 'dynamic']);

export const Group = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    siteId: z.uuid().nullable(),
    name: z.string(),
    description: z.string().nullable(),
    type: GroupType,
    filterId: z
      .uuid()
      .nullable()
      .describe('Dynamic groups only: the members are the devices that the filter finds.'),
    deviceCount: z.number().int().describe('Excludes decommissioned devices.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Group' });

const MAX_DEVICES_AT_ONCE = 1000;
const deviceIds = z.array(z.uuid()).max(MAX_DEVICES_AT_ONCE);

/** In lower case, so that it can be compared with ids from the database. */
const orgId = z.uuid().toLowerCase();

const fields = {
  type: GroupType.optional(),
  filterId: z
    .uuid()
    .toLowerCase()
    .nullable()
    .optional()
    .describe('Required for dynamic groups: a saved filter of the organization.'),
  name: nfcText(255).trim().describe('Unique within the organization, case-insensitive.'),
  description: nfcText(1000).nullable().optional(),
  siteId: z
    .uuid()
    .nullable()
    .optional()
    .describe('The site that the group is filed under. Its devices may be at any site of the organization.'),
};

export const NewGroup = z.strictObject({
  ...fields,
  orgId,
  deviceIds: deviceIds.optional().describe('Static groups only.'),
});
export type NewGroup = z.infer<typeof NewGroup>;

export const GroupPatch = z
  .strictObject({
    ...fields,
    orgId: orgId.describe('Cannot be changed; accepted only if equal to the current one.'),
  })
  .partial();
export type GroupPatch = z.infer<typeof GroupPatch>;

export const GroupQuery = PageQuery.extend({
  orgId: z.uuid().optional(),
  siteId: z.uuid().optional(),
  search: nfcText(255)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the name, case-insensitive.'),
});
export type GroupQuery = z.infer<typeof GroupQuery>;

/** The parameters of the device list, without those that select the group. */
export const GroupDeviceQuery = DeviceQuery.omit({ orgId: true, groupId: true });
export type GroupDeviceQuery = z.infer<typeof GroupDeviceQuery>;

export const GroupMembers = z.strictObject({ deviceIds: deviceIds.min(1) });

const total = z
  .number()
  .int()
  .describe('Devices in the group after the change, excluding decommissioned ones.');

export const MembersAdded = z.object({
  added: z.number().int().describe('Devices that were not in the group before.'),
  total,
});

export const MembersRemoved = z.object({
  removed: z.number().int().describe('Devices that were in the group before.'),
  total,
});

export const MembershipReason = z
  .enum([
    'manual',
    'group_created',
    'filter_match',
    'filter_unmatch',
    'filter_changed',
    'device_moved',
    'device_decommissioned',
  ])
  .describe(
    'filter_match and filter_unmatch: the device changed and now does, or does not, match the filter.',
  );

export const GroupChange = z
  .object({
    device: z.object({ id: z.uuid(), hostname: z.string().describe('The host name at that time.') }),
    change: z.enum(['joined', 'left']),
    reason: MembershipReason,
    at: Timestamp,
    by: z.uuid().nullable().describe('The user who caused the change; null if it was automatic.'),
  })
  .meta({ id: 'GroupChange' });
export type GroupChange = z.infer<typeof GroupChange>;

export const GroupChangeQuery = PageQuery.extend({ deviceId: z.uuid().optional() });
export type GroupChangeQuery = z.infer<typeof GroupChangeQuery>;
