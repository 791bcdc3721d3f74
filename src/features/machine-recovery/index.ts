import { bounded, byRules } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { bareMetalRoutes } from './bare-metal.routes.ts';
import { bareMetalTokenRetention, vmRestoreRetention } from './machine-recovery.model.ts';
import { machineRoutes } from './machine.routes.ts';
import { HYPERV, KVM } from './machine.schema.ts';
import { vmRestoreRoutes } from './vm-restore.routes.ts';
import { addVmRefreshJob } from './vm-restore.work.ts';

export { bareMetalLimits } from './bare-metal.service.ts';
export {
  cancelMachineRestore,
  discardMachine,
  endsOfMachineRestores,
  readGuest,
  startMachineRestore,
} from './disaster-recovery.ts';

export const feature = defineFeature({
  name: 'machine-recovery',
  routes: (
    parts: Parameters<typeof vmRestoreRoutes>[0] &
      Parameters<typeof bareMetalRoutes>[0] &
      Parameters<typeof machineRoutes>[1],
  ) => [
    vmRestoreRoutes(parts),
    bareMetalRoutes(parts),
    machineRoutes(HYPERV, parts),
    machineRoutes(KVM, parts),
  ],
  jobs: (parts: Parameters<typeof addVmRefreshJob>[0]) => addVmRefreshJob(parts),
  tables: [
    ...byRules([...vmRestoreRetention, ...bareMetalTokenRetention]),
    bounded('backup_machines', 'a device lists at most a thousand of each hypervisor'),
  ],
});
