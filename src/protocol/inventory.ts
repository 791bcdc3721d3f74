import { z } from 'zod';
import { Hardware, Network } from './enrollment.ts';
import { atMost, ReportedInstant, reportedText } from './primitives.ts';

/** What an agent says of its machine beyond the heartbeat, over HTTP: `POST /agents/:id/inventory`. */

/** Of an inventory, unpacked: a small packed body cannot become a large one. */
export const INVENTORY_MAX_BYTES = 1_000_000;
export const SOFTWARE_MAX = 5000;
export const INTERFACES_MAX = 256;
export const INTERFACE_ADDRESSES_MAX = 64;

export const NetworkInterface = z.object({
  name: reportedText(255),
  macAddress: reportedText(64, 0).optional(),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()], 'must be an IPv4 or IPv6 address'))
    .max(INTERFACE_ADDRESSES_MAX)
    .default([]),
  isPrimary: z
    .boolean()
    .default(false)
    .describe('Where the way to the rest of the world leads: one at most.'),
});
export type NetworkInterface = z.infer<typeof NetworkInterface>;

const trimmedName = reportedText(255)
  .transform((name) => name.trim())
  .refine((name) => name !== '', 'must not be blank');

export const SoftwareEntry = z.object({
  name: trimmedName,
  version: reportedText(255, 0).optional(),
  publisher: reportedText(255, 0).optional(),
  installedAt: ReportedInstant.optional(),
});
export type SoftwareEntry = z.infer<typeof SoftwareEntry>;

/** Each part that is there replaces what was known; a part that is left out says nothing. */
export const Inventory = z.object({
  hardware: Hardware.optional(),
  network: Network.optional(),
  interfaces: atMost(INTERFACES_MAX, NetworkInterface).superRefine(onePrimary).optional(),
  software: atMost(SOFTWARE_MAX, SoftwareEntry)
    .optional()
    .describe('One name may come in several versions. What comes twice in the same version counts once.'),
  lastUser: reportedText(255, 0).optional(),
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
      installed: count.describe('Titles, or further versions of one.'),
      updated: count.describe('Titles whose version is another one.'),
      removed: count,
      corrected: count.describe('Of which only publisher or date have changed.'),
    })
    .describe(
      'How much of each is not as it was known. All 0: nothing was written but when it was collected.',
    ),
});
export type InventoryReceipt = z.infer<typeof InventoryReceipt>;
