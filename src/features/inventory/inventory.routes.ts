import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { Inventory, INVENTORY_MAX_BYTES, InventoryReceipt, SOFTWARE_MAX } from '../../protocol/index.ts';
import { listInstallations, listTitles, CHANGES_MAX } from './inventory.queries.ts';
import {
  DeviceInventory,
  FleetSoftwareQuery,
  Installation,
  InstallationQuery,
  InstalledSoftwarePage,
  SoftwareChangePage,
  SoftwareChangeQuery,
  SoftwareQuery,
  SoftwareTitlePage,
} from './inventory.schema.ts';
import { takeInventory, listChanges, listInstalled, readInventory } from './inventory.service.ts';

export function inventoryRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Inventory',
    description: 'Hardware, network and installed software of devices, as their agents report them.',
    routes: [
      route({
        method: 'post',
        path: '/agents/:id/inventory',
        summary: 'Report the inventory of the device',
        description: `Each part that is sent replaces the stored one; a part that is left out stays as it is. At most ${SOFTWARE_MAX} software entries and ${INVENTORY_MAX_BYTES} bytes uncompressed. The report is stored as a whole or not at all: a 400 names the invalid entry by its index.`,
        access: 'agent',
        params: IdParams,
        body: Inventory,
        bodyLimit: INVENTORY_MAX_BYTES,
        response: InventoryReceipt,
        handler: ({ ctx, body }) => takeInventory(ctx, body, hub),
        unaudited: 'a daily report of the device about itself; its changes are listed with the device',
      }),
      route({
        method: 'get',
        path: '/devices/:id/inventory',
        summary: 'Read the hardware and network of a device',
        access: everyScope('devices:read'),
        params: IdParams,
        response: DeviceInventory,
        handler: ({ ctx, params }) => readInventory(ctx, params.id),
      }),
      route({
        method: 'get',
        path: '/devices/:id/software',
        summary: 'List the software installed on a device, by name',
        access: everyScope('devices:read'),
        params: IdParams,
        query: SoftwareQuery,
        response: InstalledSoftwarePage,
        handler: ({ ctx, params, query }) => listInstalled(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/devices/:id/software/changes',
        summary: 'List software changes on a device, newest first',
        description: `Changes are recorded from the second inventory on. The newest ${CHANGES_MAX} of each device are kept.`,
        access: everyScope('devices:read'),
        params: IdParams,
        query: SoftwareChangeQuery,
        response: SoftwareChangePage,
        handler: ({ ctx, params, query }) => listChanges(ctx, params.id, query),
      }),
      route({
        method: 'get',
        path: '/software',
        summary: 'List the software installed in the fleet, by name, with device counts by version',
        description:
          'Decommissioned devices are not counted: a title that only they have is listed with no device.',
        access: everyScope('devices:read'),
        cost: 'expensive',
        query: FleetSoftwareQuery,
        response: SoftwareTitlePage,
        handler: ({ ctx, query }) => listTitles(ctx, query),
      }),
      route({
        method: 'get',
        path: '/software/installations',
        summary: 'List the devices that have a title, with its versions and since when, by name',
        description:
          'A device that has several versions is listed with each. Decommissioned devices are left out.',
        access: everyScope('devices:read'),
        query: InstallationQuery,
        response: pageOf(Installation),
        handler: ({ ctx, query }) => listInstallations(ctx, query),
      }),
    ],
  };
}
