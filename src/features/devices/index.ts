import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { deviceRoutes } from './device.routes.ts';
import { MaintenanceEnd } from './management/maintenance-end.ts';
import { deviceRetention } from './retention.ts';

export { deviceOfToken, issueAgentToken, stageAgentToken } from './credentials/agent-token.service.ts';
export { CachedAgentCredentials } from './credentials/cached-agent-credentials.ts';
export { agentVersions } from './agent-versions.ts';
export { asReported, supportsCommand } from './capabilities.ts';
export { recordAgentState } from './management/agent-state.ts';
export { setUpdating } from './management/updating.ts';
export { lockDevice } from './management/device-lock.ts';
export { assertDeviceQuota } from './management/device-quota.ts';
export { type DecommissionParts, unenrollDevice } from './management/decommission.service.ts';
export { raiseEnrollmentConflict, raiseSerialConflicts, type Side } from './identity/conflict-alerts.ts';
export { isOtherMachine, noteRenames } from './identity/machine-facts.ts';
export { createDeviceStore } from './presence/device-store.ts';
export type { TellAutoUpdate } from './management/update.service.ts';
export { deviceSearch } from './device-search.ts';
export { costOfListing, Device, DeviceQuery } from './device.schema.ts';
export {
  AWAITS_APPROVAL,
  commandTargets,
  devicesFound,
  findAskableDevice,
  findDevice,
  type CommandTarget,
  listDevices,
  noteOfDevice,
  positionsOutsideOrganization,
  readDevice,
} from './device.service.ts';
export { presenceOf, selectDevices, toSummary, type DeviceRow } from './device.queries.ts';
export { Device as DeviceModel, DevicePresence } from './device.model.ts';

export const feature = defineFeature({
  name: 'devices',
  routes: (parts: Parameters<typeof deviceRoutes>[0]) => [deviceRoutes(parts)],
  workers: (parts: ConstructorParameters<typeof MaintenanceEnd>[0]) => ({
    'ends of maintenance': new MaintenanceEnd(parts),
  }),
  tables: [
    bounded('devices', 'there is one for each machine, and an organization may have a limited number'),
    cascade('device_presence', 'devices'),
    ...byRules(deviceRetention),
  ],
});
