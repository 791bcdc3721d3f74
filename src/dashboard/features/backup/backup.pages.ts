import { lazy } from 'react';
import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const page = z.number().int().positive().optional().catch(undefined);
const id = z.uuid().optional().catch(undefined);
const time = z.iso.datetime().optional().catch(undefined);
const text = z.string().optional().catch(undefined);
const getParentRoute = () => signedInRoute;
const staticData = { title: 'Backup', permission: 'backup:read' };

const overviewRoute = createRoute({
  getParentRoute,
  path: '/backup',
  validateSearch: z.object({ days: z.number().int().min(3).max(90).optional().catch(undefined) }),
  staticData,
  component: lazyRouteComponent(() => import('./overview-page.tsx'), 'BackupPage'),
});

const jobsRoute = createRoute({
  getParentRoute,
  path: '/backup/jobs',
  validateSearch: z.object({
    status: z
      .enum(['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'])
      .optional()
      .catch(undefined),
    device: id,
    config: id,
    date: text,
    job: id,
    page,
  }),
  staticData: { ...staticData, title: 'Backup jobs' },
  component: lazyRouteComponent(() => import('./jobs-page.tsx'), 'JobsPage'),
});

const snapshotsRoute = createRoute({
  getParentRoute,
  path: '/backup/snapshots',
  validateSearch: z.object({ device: id, config: id, asOf: time, page }),
  staticData: { ...staticData, title: 'Snapshots' },
  component: lazyRouteComponent(() => import('./snapshots-page.tsx'), 'SnapshotsPage'),
});

const snapshotRoute = createRoute({
  getParentRoute,
  path: '/backup/snapshots/$snapshotId',
  validateSearch: z.object({
    path: text,
    q: text,
    page,
    /** The state of the backup store that is shown; without it, that of now. */
    asOf: time,
    view: z.enum(['files', 'changes']).optional().catch(undefined),
    /** The snapshot that it is compared with. */
    against: id,
    /** The volume of an image whose files are shown; of a snapshot of machines, that of one of them. */
    machine: text,
    disk: text,
    partition: page,
  }),
  staticData: { ...staticData, title: 'Snapshot' },
  component: lazyRouteComponent(() => import('./snapshot-page.tsx'), 'SnapshotPage'),
});

const databasesRoute = createRoute({
  getParentRoute,
  path: '/backup/databases',
  /** `servers`: the page of their list. */
  validateSearch: z.object({ device: id, page, servers: page }),
  staticData: { ...staticData, title: 'Databases' },
  component: lazyRouteComponent(() => import('./databases-page.tsx'), 'DatabasesPage'),
});

const machinesRoute = createRoute({
  getParentRoute,
  path: '/backup/machines',
  validateSearch: z.object({
    device: id,
    hypervisor: z.enum(['hyperv', 'kvm']).optional().catch(undefined),
    page,
  }),
  staticData: { ...staticData, title: 'Machines' },
  component: lazyRouteComponent(() => import('./machines-page.tsx'), 'MachinesPage'),
});

const restoresRoute = createRoute({
  getParentRoute,
  path: '/backup/restores',
  /** `machine`: the opened virtual machine, of the view of those. */
  validateSearch: z.object({
    device: id,
    restore: id,
    view: z.literal('machines').optional().catch(undefined),
    machine: id,
    page,
  }),
  staticData: { title: 'Restores', permission: 'recovery:read' },
  component: lazyRouteComponent(() => import('./restores-page.tsx'), 'RestoresPage'),
});

const bootsRoute = createRoute({
  getParentRoute,
  path: '/backup/instant-boots',
  /** `device`: the host. */
  validateSearch: z.object({ device: id, boot: id, page }),
  staticData: { title: 'Instant boots', permission: 'recovery:read' },
  component: lazyRouteComponent(() => import('./boots-page.tsx'), 'BootsPage'),
});

const bareMetalRoute = createRoute({
  getParentRoute,
  path: '/backup/bare-metal',
  /** `recovery`: the opened token, by its id. */
  validateSearch: z.object({ device: id, recovery: id, page }),
  staticData: { title: 'Bare-metal recovery', permission: 'recovery:read' },
  component: lazyRouteComponent(() => import('./bare-metal-page.tsx'), 'TokensPage'),
});

const configsRoute = createRoute({
  getParentRoute,
  path: '/backup/configurations',
  validateSearch: z.object({ page }),
  staticData: { ...staticData, title: 'Backup configurations' },
  component: lazyRouteComponent(() => import('./configs-page.tsx'), 'ConfigsPage'),
});

const verificationsRoute = createRoute({
  getParentRoute,
  path: '/backup/verifications',
  validateSearch: z.object({ device: id, verification: id, page }),
  staticData: { ...staticData, title: 'Verifications' },
  component: lazyRouteComponent(() => import('./verifications-page.tsx'), 'VerificationsPage'),
});

const slasRoute = createRoute({
  getParentRoute,
  path: '/backup/slas',
  /** `breaches`: the page of their list. */
  validateSearch: z.object({ page, breaches: page }),
  staticData: { ...staticData, title: 'SLAs' },
  component: lazyRouteComponent(() => import('./slas-page.tsx'), 'SlasPage'),
});

const keysRoute = createRoute({
  getParentRoute,
  path: '/backup/keys',
  validateSearch: z.object({ page }),
  staticData: { title: 'Encryption keys', permission: 'recovery:read' },
  component: lazyRouteComponent(() => import('./keys-page.tsx'), 'KeysPage'),
});

export const backupPages = [
  overviewRoute,
  jobsRoute,
  snapshotsRoute,
  snapshotRoute,
  databasesRoute,
  machinesRoute,
  restoresRoute,
  bootsRoute,
  bareMetalRoute,
  configsRoute,
  verificationsRoute,
  slasRoute,
  keysRoute,
] as const;

/** The state of backups of a device. It is loaded when it is first shown. */
export const DeviceBackup = lazy(async () => ({
  default: (await import('./device-backup.tsx')).DeviceBackup,
}));
