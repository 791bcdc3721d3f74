import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/access.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { Inventory, INVENTORY_MAX_BYTES, InventoryReceipt, SOFTWARE_MAX } from '../../protocol/index.ts';
import {
  DeviceInventory,
  FleetSoftwareQuery,
  InstalledSoftwarePage,
  SoftwareChangePage,
  SoftwareChangeQuery,
  SoftwareQuery,
  SoftwareTitlePage,
} from './inventory.schema.ts';
import { takeInventory } from './inventory.service.ts';
import { listChanges, listInstalled, listTitles, readInventory } from './software.service.ts';
import { CHANGES_MAX } from './stored-software.ts';

export function inventoryRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Inventory',
    description: 'What machines are made of and what is installed on them, as their agents tell it.',
    routes: [
      route({
        method: 'post',
        path: '/agents/:id/inventory',
        summary: 'Tell what the machine is made of and what is installed on it',
        description: `Each part that is there replaces what was known; a part that is left out says nothing. At most ${SOFTWARE_MAX} entries of software and ${INVENTORY_MAX_BYTES} bytes, unpacked. All of it is taken, or none: the 400 names the entry at fault by its place.`,
        access: 'agent',
        params: IdParams,
        body: Inventory,
        bodyLimit: INVENTORY_MAX_BYTES,
        response: InventoryReceipt,
        handler: ({ ctx, body }) => takeInventory(ctx, body, hub),
        unaudited: 'what a machine says of itself, each day; what changes is listed with the device',
      }),
      route({
        method: 'get',
        path: '/devices/:id/inventory',
        summary: 'Hardware and network of a device, and when it was looked at',
        access: everyScope('devices:read'),
        params: IdParams,
        response: DeviceInventory,
        handler: ({ ctx, params }) => readInventory(ctx, params.id),
      }),
      route({
        method: 'get',
        path: '/devices/:id/software',
        summary: 'What is installed on a device, by name',
        access: everyScope('devices:read'),
        params: IdParams,
        query: SoftwareQuery,
        response: InstalledSoftwarePage,
        handler: ({ ctx, params, query }) => listInstalled(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/devices/:id/software/changes',
        summary: 'What was installed, updated and removed on a device, newest first',
        description: `From the second inventory on; the newest ${CHANGES_MAX} of a device are kept.`,
        access: everyScope('devices:read'),
        params: IdParams,
        query: SoftwareChangeQuery,
        response: SoftwareChangePage,
        handler: ({ ctx, params, query }) => listChanges(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/software',
        summary: 'What is installed in the fleet, by name, with how many devices have it in which versions',
        description:
          'Decommissioned devices do not count: a title that only they have is shown with no device.',
        access: everyScope('devices:read'),
        cost: 'expensive',
        query: FleetSoftwareQuery,
        response: SoftwareTitlePage,
        handler: ({ ctx, query }) => listTitles(ctx, query),
      }),
    ],
  };
}
