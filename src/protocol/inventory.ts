import { z } from 'zod';
import { Hardware, Network } from './enrollment.ts';
import { FailedSource, SourceName } from './failed-source.ts';
import { atMost, ReportedInstant, reportedName, reportedText } from './primitives.ts';

/** What an agent reports about its machine beyond the heartbeat, over HTTP: `POST /agents/:id/inventory`. */

/** The largest uncompressed inventory, so that a small compressed body cannot expand without limit. */
export const INVENTORY_MAX_BYTES = 1_000_000;
export const SOFTWARE_MAX = 5000;
export const INTERFACES_MAX = 256;
const FAILED_MAX = 32;
export const INTERFACE_ADDRESSES_MAX = 64;

export const NetworkInterface = z.object({
  name: reportedName(255),
  macAddress: reportedText(64, 0).optional(),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()], 'must be an IPv4 or IPv6 address'))
    .max(INTERFACE_ADDRESSES_MAX)
    .default([]),
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
  source: SourceName.optional().describe('What has listed it, such as `dpkg`.'),
});
export type SoftwareEntry = z.infer<typeof SoftwareEntry>;

/** Each part that is present replaces the stored one. A part that is left out changes nothing. */
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
      'Sources that could not be read. What an earlier inventory had from them stays, so software has to name its source.',
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
    .describe('How many values have changed. Where all are 0, only the time of the collection was stored.'),
});
export type InventoryReceipt = z.infer<typeof InventoryReceipt>;
