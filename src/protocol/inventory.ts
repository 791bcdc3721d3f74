import { z } from 'zod';
import { Hardware, Network } from './enrollment.ts';
import { HardwareAddress } from './machine-identity.ts';
import { FailedSource, SourceName, atMost, ReportedInstant, reportedName } from './primitives.ts';

/** What an agent reports about its machine beyond the heartbeat, over HTTP: `POST /agents/:id/inventory`. */

/** The largest uncompressed inventory, so that a small compressed body cannot expand without limit. */
export const INVENTORY_MAX_BYTES = 1_000_000;
export const SOFTWARE_MAX = 5000;
export const INTERFACES_MAX = 256;
const FAILED_MAX = 32;
export const INTERFACE_ADDRESSES_MAX = 64;

export const NetworkInterface = z.object({
  name: reportedName(255),
  macAddress: HardwareAddress.optional(),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()], 'must be an IPv4 or IPv6 address'))
    .max(INTERFACE_ADDRESSES_MAX)
    .default([]),
  addressCount: z.number().int().optional().describe('The total number, if more exist than are listed.'),
  isPrimary: z.boolean().default(false).describe('True for the interface of the default route: one at most.'),
});
export type NetworkInterface = z.infer<typeof NetworkInterface>;

const trimmedName = reportedName(255)
  .transform((name) => name.trim())
  .refine((name) => name !== '', 'must not be blank');

export const SoftwareEntry = z.object({
  name: trimmedName,
  version: reportedName(255, 0).optional(),
  publisher: reportedName(255, 0).optional(),
  installedAt: ReportedInstant.optional(),
  source: SourceName.optional().describe('The source that lists it, such as `dpkg`.'),
});
export type SoftwareEntry = z.infer<typeof SoftwareEntry>;

/** Each part that is present replaces the stored one. An absent part changes nothing. */
export const Inventory = z.object({
  hardware: Hardware.optional(),
  network: Network.optional(),
  interfaces: atMost(INTERFACES_MAX, NetworkInterface).superRefine(onePrimary).optional(),
  software: atMost(SOFTWARE_MAX, SoftwareEntry)
    .optional()
    .describe('A name may occur in several versions. Duplicates of a name and version count once.'),
  lastUser: reportedName(255, 0).optional(),
  failed: atMost(FAILED_MAX, FailedSource)
    .optional()
    .describe(
      'Sources that could not be read. Their entries of an earlier inventory are kept, so software must name its source.',
    ),
  collectedAt: ReportedInstant,
});
export type Inventory = z.infer<typeof Inventory>;

function onePrimary(interfaces: NetworkInterface[], context: z.core.$RefinementCtx): void {
  const primary = interfaces.flatMap(({ isPrimary }, index) => (isPrimary ? [index] : []));
  for (const index of primary.slice(1)) {
    context.addIssue({
      code: 'custom',
      path: [index, 'isPrimary'],
      message: 'must be the only one that is primary',
    });
  }
}

const count = z.number().int();

export const InventoryReceipt = z.object({
  ok: z.literal(true),
  changed: z
    .object({
      hardware: count,
      network: count,
      interfaces: count,
      lastUser: count,
      installed: count.describe('New titles, and further versions of known ones.'),
      updated: count.describe('Titles with another version.'),
      removed: count,
      corrected: count.describe('Titles of which only the publisher or the date has changed.'),
    })
    .describe('How many values have changed. If all are 0, only the time of the collection was stored.'),
});
export type InventoryReceipt = z.infer<typeof InventoryReceipt>;
