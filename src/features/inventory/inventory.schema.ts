import { z } from 'zod';
import { listOf, text, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { Hardware, Network, NetworkInterface } from '../../protocol/index.ts';

const search = text(100)
  .transform((part) => part.trim())
  .optional()
  .describe('Part of the name, in any case.');

/** Empty is how the database says that it is not known. */
const known = z
  .string()
  .transform((value) => (value === '' ? null : value))
  .pipe(z.string().nullable());

export const DeviceInventory = z
  .object({
    deviceId: z.uuid(),
    orgId: z.uuid(),
    hardware: Hardware,
    network: Network,
    interfaces: z.array(NetworkInterface),
    lastUser: z.string().nullable(),
    softwareCount: z.number().int().describe('Titles, each in however many versions.'),
    collectedAt: Timestamp.nullable().describe('When the machine was looked at; null where it never told.'),
    receivedAt: Timestamp.nullable(),
  })
  .meta({ id: 'DeviceInventory' });
export type DeviceInventory = z.infer<typeof DeviceInventory>;

export const SoftwareQuery = PageQuery.extend({ search });
export type SoftwareQuery = z.infer<typeof SoftwareQuery>;

export const InstalledSoftware = z
  .object({
    name: z.string(),
    version: known,
    publisher: z.string().nullable(),
    installedAt: Timestamp.nullable(),
  })
  .meta({ id: 'InstalledSoftware' });
export type InstalledSoftware = z.input<typeof InstalledSoftware>;
export const InstalledSoftwarePage = pageOf(InstalledSoftware);

export const ChangeKind = z.enum(['installed', 'updated', 'removed']);

export const SoftwareChangeQuery = PageQuery.extend({ search, change: listOf(ChangeKind) });
export type SoftwareChangeQuery = z.infer<typeof SoftwareChangeQuery>;

export const SoftwareChangeEntry = z
  .object({
    at: Timestamp.describe(
      'When the machine was looked at and it was so; it happened since the time before.',
    ),
    change: ChangeKind,
    name: z.string(),
    version: known.describe('Null of what was removed.'),
    previousVersion: known.describe('Null of what was installed.'),
  })
  .meta({ id: 'SoftwareChange' });
export type SoftwareChangeEntry = z.input<typeof SoftwareChangeEntry>;
export const SoftwareChangePage = pageOf(SoftwareChangeEntry);

export const FleetSoftwareQuery = SoftwareQuery.extend({ orgId: z.uuid().optional() });
export type FleetSoftwareQuery = z.infer<typeof FleetSoftwareQuery>;

/** Of versions that are shown of a title: those on most devices. */
export const VERSIONS_SHOWN = 20;

export const SoftwareTitle = z
  .object({
    name: z.string(),
    deviceCount: z.number().int(),
    versionCount: z.number().int(),
    versions: z
      .array(z.object({ version: known, deviceCount: z.number().int() }))
      .describe(`Those on most devices first; ${VERSIONS_SHOWN} of them at most.`),
  })
  .meta({ id: 'SoftwareTitle' });
export type SoftwareTitle = z.input<typeof SoftwareTitle>;
export const SoftwareTitlePage = pageOf(SoftwareTitle);
