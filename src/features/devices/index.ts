export { CachedAgentCredentials, issueAgentToken, stageAgentToken } from './agent-credentials.ts';
export { createDeviceStore } from './device-store.ts';
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
export { selectDevices, toSummary, type DeviceRow } from './device.report.ts';
