import { z } from 'zod';
import { Id } from '../../platform/http/fields.ts';

const FILED_MAX = 100;
const DEVICES_MAX = 1000;

const ids = (atMost: number) =>
  z
    .array(Id)
    .min(1)
    .max(atMost)
    .overwrite((list) => [...new Set(list)]);

const WAYS = ['all', 'filterId', 'groupIds', 'siteIds', 'deviceIds'] as const;

/** The devices that something of an organization, or of a partner for all of its organizations, is about. */
export const DeviceTarget = z
  .strictObject({
    all: z.literal(true).optional().describe('All devices of the owner.'),
    filterId: Id.optional().describe(
      'The devices of the filter’s organization that match it, as they are at the time.',
    ),
    groupIds: ids(FILED_MAX).optional().describe('The devices of these groups, as they are at the time.'),
    siteIds: ids(FILED_MAX).optional().describe('The devices at these sites, as they are at the time.'),
    deviceIds: ids(DEVICES_MAX).optional(),
  })
  .refine(
    (target) => WAYS.filter((way) => target[way] !== undefined).length === 1,
    `must have exactly one of ${WAYS.join(', ')}`,
  )
  .meta({ id: 'DeviceTarget' });
export type DeviceTarget = z.infer<typeof DeviceTarget>;
