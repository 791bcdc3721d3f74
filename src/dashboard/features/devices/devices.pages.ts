import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { DeviceStatus, OsType } from '../../../protocol/index.ts';
import { signedInRoute } from '../../routing.ts';
import { DEVICE_DIALOGS, DEVICE_TABS } from './device-tabs.ts';

/** Everything that decides what the table shows is in the address, so that a link shows the same. */
const DevicesSearch = z.object({
  q: z.string().optional().catch(undefined),
  status: z.array(DeviceStatus).optional().catch(undefined),
  os: z.array(OsType).optional().catch(undefined),
  filter: z.uuid().optional().catch(undefined),
  /** Without them, the table has those that were chosen last in this browser. */
  columns: z.array(z.string().max(80)).min(1).max(60).optional().catch(undefined),
  sort: z.string().optional().catch(undefined),
  desc: z.boolean().optional().catch(undefined),
});

const devicesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/devices',
  validateSearch: DevicesSearch,
  staticData: { title: 'Devices', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./devices-page.tsx'), 'DevicesPage'),
});

const decommissionedRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/devices/decommissioned',
  validateSearch: z.object({
    q: z.string().optional().catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
  }),
  staticData: { title: 'Decommissioned devices', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./decommissioned-page.tsx'), 'DecommissionedPage'),
});

const text = z.string().optional().catch(undefined);
const words = z.array(z.string()).optional().catch(undefined);

/** The state within a tab; another tab begins without it. */
const DeviceSearch = z.object({
  tab: z.enum(DEVICE_TABS).optional().catch(undefined),
  page: z.number().int().positive().optional().catch(undefined),
  q: text,
  show: text,
  level: words,
  kinds: words,
  source: text,
  status: text,
  range: text,
  compare: text,
  command: z.uuid().optional().catch(undefined),
  /** The script that the form for running one begins with. */
  script: z.uuid().optional().catch(undefined),
  dialog: z.enum(DEVICE_DIALOGS).optional().catch(undefined),
});

const deviceRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/devices/$deviceId',
  validateSearch: DeviceSearch,
  staticData: { title: 'Device', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./device-page.tsx'), 'DevicePage'),
});

const capacityRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/capacity',
  validateSearch: z.object({
    metric: text,
    filter: z.uuid().optional().catch(undefined),
  }),
  staticData: { title: 'Capacity', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./capacity-page.tsx'), 'CapacityPage'),
});

export const devicePages = [devicesRoute, decommissionedRoute, deviceRoute, capacityRoute] as const;
