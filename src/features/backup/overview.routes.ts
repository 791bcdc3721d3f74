import { everyScope } from '../../platform/http/authentication.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { ReadinessSource } from './overview.queries.ts';
import {
  BackupDashboard,
  BackupHealth,
  DeviceBackupStatus,
  DeviceParams,
  HealthQuery,
  OverviewQuery,
  ReadinessQuery,
  RecoveryReadiness,
  UsageHistory,
  UsageQuery,
} from './overview.schema.ts';
import { readDashboard, readHealth, readReadiness, readStatus, readUsage } from './overview.service.ts';

const READ = everyScope('backup:read');

export const overviewRoutes = ({ cloudReadiness }: { cloudReadiness: ReadinessSource }): RouteGroup => ({
  name: 'Backup overview',
  description: 'How well devices and cloud services are protected.',
  routes: [
    route({
      method: 'get',
      path: '/backup/dashboard',
      summary: 'Read the sums of backups',
      access: READ,
      cost: 'expensive',
      query: OverviewQuery,
      response: BackupDashboard,
      handler: ({ ctx, query }) => readDashboard(ctx, query, cloudReadiness),
    }),
    route({
      method: 'get',
      path: '/backup/status/:deviceId',
      summary: 'Read how a device is backed up',
      access: READ,
      params: DeviceParams,
      response: DeviceBackupStatus,
      handler: ({ ctx, params }) => readStatus(ctx, params.deviceId),
    }),
    route({
      method: 'get',
      path: '/backup/usage-history',
      summary: 'Read what backups took in the last days',
      access: READ,
      cost: 'expensive',
      query: UsageQuery,
      response: UsageHistory,
      handler: ({ ctx, query }) => readUsage(ctx, query),
    }),
    route({
      method: 'get',
      path: '/backup/health',
      summary: 'Read the health of backups',
      access: READ,
      cost: 'expensive',
      query: HealthQuery,
      response: BackupHealth,
      handler: ({ ctx, query }) => readHealth(ctx, query, cloudReadiness),
    }),
    route({
      method: 'get',
      path: '/backup/recovery-readiness',
      summary: 'Read how surely devices and cloud services can be restored',
      access: READ,
      cost: 'expensive',
      query: ReadinessQuery,
      response: RecoveryReadiness,
      handler: ({ ctx, query }) => readReadiness(ctx, query, cloudReadiness),
    }),
  ],
});
