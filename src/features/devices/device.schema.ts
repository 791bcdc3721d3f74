import { z } from 'zod';
import {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
  Presence,
  WatchdogReport,
} from '../../protocol/index.ts';
import { JsonColumn, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

/** What the watchdog of a device says about the agent that it runs. */
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

/** A plain page is cheap. A search reads many devices that are not shown. */
export const costOfListing = ({
  filterId,
  search,
  tags,
}: Pick<DeviceQuery, 'filterId' | 'search' | 'tags'>) =>
  filterId === undefined && search === undefined && tags === undefined ? 'cheap' : 'expensive';
