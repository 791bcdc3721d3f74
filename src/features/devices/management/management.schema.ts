import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { futureInstant, Id, JsonInput, nfcText } from '../../../platform/http/fields.ts';
import { Device } from '../device.schema.ts';

const MAX_TAGS = 50;
/** A comma separates tags where they are listed. */
const tag = nfcText(64)
  .trim()
  .refine((value) => !value.includes(','), 'must not have a comma');
const tags = z
  .array(tag)
  .max(MAX_TAGS)
  .transform((list) => [...new Set(list)]);
export const TOO_MANY_TAGS = `a device may have ${MAX_TAGS} tags`;
export const hasTooManyTags = (list: readonly string[]) => list.length > MAX_TAGS;

const customFields = JsonInput.describe(
  'Values by custom field key: null removes a value, and values that are left out stay.',
);

export const DevicePatch = z
  .strictObject({
    displayName: nfcText(255).trim().nullable(),
    tags: tags.describe('All tags of the device.'),
    customFields,
    autoUpdate: z.boolean().describe('Also sent to the agent, which stores it.'),
    siteId: Id.describe('Another site of the organization.'),
  })
  .partial();
export type DevicePatch = z.infer<typeof DevicePatch>;

/** SPEC 4.12. */
export const AutoUpdate = z.strictObject({ enabled: z.boolean() });

const MAINTENANCE_MAX_MS = 366 * 24 * 3_600_000;

const maintenance = {
  enabled: z.boolean(),
  until: futureInstant()
    .refine((at) => at.getTime() <= clock.now() + MAINTENANCE_MAX_MS, 'must lie within a year')
    .optional()
    .describe('When maintenance ends automatically. Without it, somebody has to end it.'),
};
const untilWhenEnabled = ({ enabled, until }: { enabled: boolean; until?: Date | undefined }) =>
  enabled || until === undefined;
const UNTIL_RULE = { path: ['until'], message: 'is only allowed when maintenance starts' };

export const Maintenance = z.strictObject(maintenance).refine(untilWhenEnabled, UNTIL_RULE);
export type Maintenance = z.infer<typeof Maintenance>;

export const Approval = z.strictObject({
  replaces: Id.optional().describe(
    'The device that this machine replaces: its record, history, groups and backups continue with this machine, and its own token ends.',
  ),
});

export const DeviceMove = z.strictObject({
  orgId: Id.optional().describe(
    'Another organization of the same partner; any organization in system scope.',
  ),
  siteId: Id,
});
export type DeviceMove = z.infer<typeof DeviceMove>;

export const DeviceMoved = z.object({
  device: Device,
  groupsLeft: z
    .array(z.object({ id: z.uuid(), name: z.string() }))
    .describe('Groups of the previous organization that the device has left.'),
  customFieldsDropped: z
    .array(z.string())
    .describe('Keys that the new organization does not define with the same type.'),
});
export type DeviceMoved = z.input<typeof DeviceMoved>;

export const MAX_BULK_DEVICES = 1000;

const BulkAction = z.discriminatedUnion('type', [
  z
    .strictObject({ type: z.literal('tags'), add: tags.optional(), remove: tags.optional() })
    .refine(({ add = [], remove = [] }) => add.length + remove.length > 0, 'must add or remove a tag')
    .refine(({ add = [], remove = [] }) => !add.some((tag) => remove.includes(tag)), {
      path: ['remove'],
      message: 'must not contain tags that are added',
    }),
  z.strictObject({ type: z.literal('maintenance'), ...maintenance }).refine(untilWhenEnabled, UNTIL_RULE),
  z.strictObject({ type: z.literal('site'), siteId: Id }),
  z.strictObject({ type: z.literal('decommission') }),
  z.strictObject({ type: z.literal('customFields'), set: customFields }),
  z.strictObject({ type: z.literal('autoUpdate'), enabled: z.boolean() }),
]);
export type BulkAction = z.infer<typeof BulkAction>;

export const BulkChange = z.strictObject({
  deviceIds: z
    .array(Id)
    .min(1)
    .max(MAX_BULK_DEVICES)
    .transform((ids) => [...new Set(ids)]),
  action: BulkAction,
});
export type BulkChange = z.infer<typeof BulkChange>;

export const BulkChanged = z.object({
  results: z
    .array(
      z.object({
        deviceId: z.uuid(),
        ok: z.boolean(),
        code: z.string().optional(),
        message: z.string().optional(),
      }),
    )
    .describe('In the order of the request, with each device once.'),
  succeeded: z.number().int(),
  failed: z.number().int(),
});
