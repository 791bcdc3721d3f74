export { CachedAgentCredentials, issueAgentToken, stageAgentToken } from './credentials/agent-credentials.ts';
export { mayBeAble } from './capabilities.ts';
export { assertRoomForDevice } from './management/device-quota.ts';
export { createDeviceStore } from './presence/device-store.ts';
export type { TellAutoUpdate } from './management/update.service.ts';
export { deviceRoutes } from './device.routes.ts';
export { costOfListing, Device, DeviceQuery } from './device.schema.ts';
export {
  devicesFound,
  devicesToManage,
  type DeviceToManage,
  listDevices,
  positionsOutsideOrganization,
  readDevice,
} from './device.service.ts';
export { MaintenanceEnd } from './management/maintenance-end.ts';
export { presenceOf, selectDevices, toSummary, type DeviceRow } from './device.queries.ts';
export { deviceRetention } from './retention.ts';
