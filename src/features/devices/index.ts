export { CachedAgentCredentials, issueAgentToken, stageAgentToken } from './agent-credentials.ts';
export { mayBeAble } from './capabilities.ts';
export { assertRoomForDevice } from './device-caps.ts';
export { createDeviceStore } from './device-store.ts';
export type { TellAutoUpdate } from './update.service.ts';
export { deviceRoutes } from './device.routes.ts';
export { Device, DeviceQuery } from './device.schema.ts';
export {
  devicesFound,
  devicesToManage,
  type DeviceToManage,
  listDevices,
  positionsOutsideOrganization,
  readDevice,
} from './device.service.ts';
export { MaintenanceEnd } from './maintenance-end.ts';
export { presenceOf, selectDevices, toSummary, type DeviceRow } from './device.report.ts';
export { deviceRetention } from './retention.ts';
