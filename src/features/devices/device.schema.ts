import { z } from 'zod';
import {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
  PlannedMaintenance,
  Presence,
  WatchdogReport,
} from '../../protocol/index.ts';
import {
  JsonColumn,
  nfcText,
  Timestamp,
  futureInstant,
  Id,
  JsonInput,
  wholeNumber,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { clock } from '../../clock.ts';

/** The report of a device's watchdog about the agent that it runs. */
export const AgentState = z.object({
  state: WatchdogReport.shape.agentState,
  message: z.string().nullable(),
  since: Timestamp,
});
export type AgentState = z.infer<typeof AgentState>;

export const Device = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    siteId: z.uuid(),
    groupIds: z.array(z.uuid()),
    hostname: z.string(),
    displayName: z.string().nullable(),
    status: DeviceStatus,
    conflictsWith: z
      .uuid()
      .nullable()
      .describe('Of a device with the status `pending`: the device whose machine id it has.'),
    maintenanceUntil: Timestamp.nullable().describe('When maintenance ends automatically.'),
    maintenance: PlannedMaintenance.nullable().describe(
      'The maintenance window that is in progress; of several, the one that ends last. The status `maintenance` and `maintenanceUntil` are about maintenance that a person has switched on for the device.',
    ),
    presence: Presence,
    osType: OsType,
    osVersion: z.string(),
    osBuild: z.string().nullable(),
    architecture: Architecture,
    agentVersion: z.string(),
    watchdogVersion: z.string().nullable(),
    agentState: AgentState.nullable().describe('As the watchdog reports it; null without a watchdog.'),
    enrolledAt: Timestamp,
    lastSeenAt: Timestamp.nullable(),
    lastIp: z.string().nullable(),
    tags: z.array(z.string()),
    customFields: JsonColumn,
    hardware: Hardware,
    network: Network,
    metrics: Metrics.extend({ at: Timestamp }).nullable(),
    autoUpdate: z.boolean(),
    capabilities: z.array(z.string()),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Device' });
export type Device = z.infer<typeof Device>;

export const DeviceSort = z.enum([
  'hostname',
  'displayName',
  'status',
  'lastSeenAt',
  'enrolledAt',
  'createdAt',
  'updatedAt',
  'osType',
  'osVersion',
  'architecture',
  'agentVersion',
  'cpuPercent',
  'ramPercent',
  'diskPercent',
]);
export type DeviceSort = z.infer<typeof DeviceSort>;

export const DeviceQuery = PageQuery.extend({
  orgId: z.uuid().optional(),
  siteId: z.uuid().optional(),
  groupId: z.uuid().optional(),
  status: DeviceStatus.optional(),
  osType: OsType.optional(),
  filterId: z.uuid().optional().describe('Only devices that match a saved filter.'),
  search: nfcText(100)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the host name or display name, ignoring case.'),
  tags: z
    .string()
    .transform((list) => list.split(',').map((tag) => tag.trim()))
    .pipe(z.array(nfcText(64)).min(1).max(50))
    .optional()
    .meta({ type: 'string', description: 'Tags separated by commas. Only devices with all of them match.' }),
  sort: DeviceSort.default('hostname').describe('Devices without a value come last in both orders.'),
  order: z.enum(['asc', 'desc']).default('asc'),
});
export type DeviceQuery = z.infer<typeof DeviceQuery>;

export const DeviceColumn = z.enum([
  'osVersion',
  'osBuild',
  'architecture',
  'watchdogVersion',
  'lastUser',
  'ipAddress',
  'publicIp',
  'macAddress',
  'lastIp',
  'manufacturer',
  'model',
  'serialNumber',
  'cpuModel',
  'cpuCores',
  'ramTotalMb',
  'diskTotalGb',
  'gpuModel',
  'tags',
  'groups',
  'autoUpdate',
  'enrolledAt',
]);
export type DeviceColumn = z.infer<typeof DeviceColumn>;

/** Characters of a text in a column. */
export const COLUMN_TEXT_MAX = 200;
const CUSTOM_COLUMNS_MAX = 20;
const COLUMN_ROWS_MAX = 1000;

export const DeviceColumnsQuery = z.object({
  columns: z
    .string()
    .transform((list) => [...new Set(list.split(',').filter((name) => name !== ''))])
    .pipe(z.array(DeviceColumn))
    .prefault('')
    .meta({
      type: 'string',
      description: `Any of ${DeviceColumn.options.join(', ')}, separated by commas.`,
    }),
  customFields: z
    .string()
    .transform((list) => [...new Set(list.split(',').filter((key) => key !== ''))])
    .pipe(z.array(nfcText(64)).max(CUSTOM_COLUMNS_MAX))
    .prefault('')
    .meta({
      type: 'string',
      description: `Keys of up to ${CUSTOM_COLUMNS_MAX} custom fields, separated by commas.`,
    }),
  orgId: Id.optional(),
  siteId: Id.optional(),
  after: Id.optional().describe('`nextAfter` of the page before.'),
  limit: wholeNumber(COLUMN_ROWS_MAX, 1, COLUMN_ROWS_MAX).meta({
    type: 'string',
    description: `Default and largest: ${COLUMN_ROWS_MAX}.`,
  }),
});
export type DeviceColumnsQuery = z.output<typeof DeviceColumnsQuery>;

const ColumnValues = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));

export const DeviceColumnsPage = z
  .object({
    data: z.array(
      z.object({
        deviceId: z.uuid(),
        values: ColumnValues.describe(
          `By column; what a device does not have is left out. Lists are joined by commas. A text ends with … after ${COLUMN_TEXT_MAX} characters.`,
        ),
        customFields: ColumnValues.describe('The same, by key.'),
      }),
    ),
    nextAfter: z.uuid().nullable().describe('Null for the last page.'),
  })
  .meta({ id: 'DeviceColumns' });
export type DeviceColumnsPage = z.input<typeof DeviceColumnsPage>;

/** A plain page is cheap. A search reads many devices that are not shown. */
export const costOfListing = ({
  filterId,
  search,
  tags,
}: Pick<DeviceQuery, 'filterId' | 'search' | 'tags'>) =>
  filterId === undefined && search === undefined && tags === undefined ? 'cheap' : 'expensive';

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
    .describe('When maintenance ends automatically. Without it, a user has to end it.'),
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

const MAX_BULK_DEVICES = 1000;

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
