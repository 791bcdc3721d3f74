import { byRules, cascade } from '../../platform/db/retention-rule.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { defineFeature } from '../feature.ts';
import { maintenanceRetention } from './maintenance-window.model.ts';
import { pastMaintenanceRetention } from './past-maintenance.queries.ts';
import { maintenanceWindowRoutes } from './maintenance-window.routes.ts';
import { MaintenanceRounds } from './maintenance-window.work.ts';

export {
  devicesInMaintenance,
  type UpgradePause,
  upgradePauses,
} from './maintenance-window.queries.ts';
export {
  maintenanceRecordedSince,
  PAST_MAINTENANCE_DAYS,
  PLANNED_MAINTENANCE,
} from './past-maintenance.queries.ts';
export { maintenanceWindowsUseFilters } from './maintenance-window.service.ts';

type WorkerParts = ConstructorParameters<typeof MaintenanceRounds>[0] & { metrics: Metrics };

export const feature = defineFeature({
  name: 'maintenance-windows',
  routes: (parts: Parameters<typeof maintenanceWindowRoutes>[0]) => [maintenanceWindowRoutes(parts)],
  workers: ({ metrics, ...parts }: WorkerParts) => {
    const rounds = new MaintenanceRounds(parts);
    metrics.gauge(
      'muster_maintenance_windows_failing',
      'Maintenance windows whose devices could not be determined.',
      () => rounds.failing(),
    );
    return { 'maintenance windows': rounds };
  },
  tables: [
    ...byRules([...maintenanceRetention, ...pastMaintenanceRetention]),
    cascade('maintenance_members', 'maintenance_windows'),
  ],
});
