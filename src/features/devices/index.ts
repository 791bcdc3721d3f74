import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { deviceRoutes } from './device.routes.ts';
import { MaintenanceEnd } from './maintenance.work.ts';
import { deviceRetention } from './device.model.ts';
import { FillDeviceSearch } from './device-search.work.ts';

export {
  deviceOfToken,
  issueAgentToken,
  stageAgentToken,
  CachedAgentCredentials,
} from './agent-credentials.ts';
export {
  agentVersions,
  recordAgentState,
  setUpdating,
  AWAITS_APPROVAL,
  commandTargets,
  awaitsApproval,
  type CommandTarget,
  positionsOutsideOrganization,
  presenceOf,
  selectDevices,
  toSummary,
  type DeviceRow,
} from './device.queries.ts';
export { deviceReport, leftServiceAtSql, wasInServiceSql } from './device-report.queries.ts';
export { deviceTrend } from './device-trend.queries.ts';
export { deviceSearch } from './device-search.queries.ts';
export {
  asReported,
  supportsCommand,
  devicesFound,
  findAskableDevice,
  findDevice,
  listDevices,
  noteOfDevice,
  readDevice,
  askableDevice,
} from './device.service.ts';
export { lockDevice, type TellAutoUpdate } from './device-update.service.ts';
export { assertDeviceQuota } from './device-update.queries.ts';
export { type DecommissionParts, unenrollDevice } from './device-lifecycle.service.ts';
export {
  raiseEnrollmentConflict,
  raiseSerialConflicts,
  type Side,
  isOtherMachine,
  noteRenames,
} from './machine-identity.ts';
export { createDeviceStore } from './presence-store.ts';
export { costOfListing, Device, DeviceQuery } from './device.schema.ts';
export { Device as DeviceModel, DevicePresence } from './device.model.ts';

export const feature = defineFeature({
  name: 'devices',
  routes: (parts: Parameters<typeof deviceRoutes>[0]) => [deviceRoutes(parts)],
  workers: (parts: ConstructorParameters<typeof MaintenanceEnd>[0]) => ({
    'ends of maintenance': new MaintenanceEnd(parts),
    'facts for the search of devices': new FillDeviceSearch(parts),
  }),
  tables: [
    bounded('devices', 'there is one for each machine, and an organization may have a limited number'),
    cascade('device_presence', 'devices'),
    cascade('device_search_facts', 'devices'),
    ...byRules(deviceRetention),
  ],
});

export { followChangesOfConditions, createFleetStore } from './fleet.queries.ts';
