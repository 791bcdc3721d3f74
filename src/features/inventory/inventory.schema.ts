import { z } from 'zod';
import { listOf, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { FailedSource, Hardware, Network, NetworkInterface } from '../../protocol/index.ts';

const search = nfcText(100)
  .transform((part) => part.trim())
  .optional()
  .describe('Part of the name, ignoring case.');

/** The database stores an unknown version as an empty string. */
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
    softwareCount: z.number().int().describe('Number of titles, each counted once for all its versions.'),
    collectedAt: Timestamp.nullable().describe(
      'When the inventory was collected; null if the agent never sent one.',
    ),
    receivedAt: Timestamp.nullable(),
    failedSources: z
      .array(FailedSource)
      .describe('What could not be read for this inventory: what earlier ones had from there is shown.'),
  })
  .meta({ id: 'DeviceInventory' });
export type DeviceInventory = z.input<typeof DeviceInventory>;

export const SoftwareQuery = PageQuery.extend({ search });
export type SoftwareQuery = z.infer<typeof SoftwareQuery>;

const firstSeenAt = Timestamp.nullable().describe(
  'When an inventory had this version for the first time. Null if that was before Muster recorded it.',
);

export const InstalledSoftware = z
  .object({
    name: z.string(),
    version: known,
    publisher: z.string().nullable(),
    installedAt: Timestamp.nullable().describe('As the device reports it.'),
    firstSeenAt,
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
      'When the inventory with the change was collected. The change happened after the inventory before it.',
    ),
    change: ChangeKind,
    name: z.string(),
    version: known.describe('null for removed software.'),
    previousVersion: known.describe('null for newly installed software.'),
  })
  .meta({ id: 'SoftwareChange' });
export type SoftwareChangeEntry = z.input<typeof SoftwareChangeEntry>;
export const SoftwareChangePage = pageOf(SoftwareChangeEntry);

export const FleetSoftwareQuery = SoftwareQuery.extend({ orgId: z.uuid().optional() });
export type FleetSoftwareQuery = z.infer<typeof FleetSoftwareQuery>;

/** Versions shown of a title. */
export const VERSIONS_SHOWN = 20;

export const SoftwareTitle = z
  .object({
    name: z.string(),
    deviceCount: z.number().int(),
    versionCount: z.number().int(),
    versions: z
      .array(
        z.object({
          version: known,
          deviceCount: z.number().int(),
          firstSeenAt: Timestamp.nullable().describe(
            'When an inventory of one of them had it for the first time. Null if one of them had it before Muster recorded that.',
          ),
        }),
      )
      .describe(`The ${VERSIONS_SHOWN} versions on most devices, in that order.`),
  })
  .meta({ id: 'SoftwareTitle' });
export type SoftwareTitle = z.input<typeof SoftwareTitle>;
export const SoftwareTitlePage = pageOf(SoftwareTitle);

export const InstallationQuery = PageQuery.extend({
  name: nfcText(255).describe('The whole name, as the list of software has it.'),
  version: nfcText(255, 0).optional().describe('Only this version; empty for an unknown one.'),
  orgId: z.uuid().optional(),
});
export type InstallationQuery = z.infer<typeof InstallationQuery>;

export const Installation = z
  .object({
    deviceId: z.uuid(),
    orgId: z.uuid(),
    hostname: z.string(),
    displayName: z.string().nullable(),
    version: known,
    publisher: z.string().nullable(),
    installedAt: Timestamp.nullable().describe('As the device reports it.'),
    firstSeenAt,
  })
  .meta({ id: 'SoftwareInstallation' });
export type Installation = z.input<typeof Installation>;
