export { issueAgentToken, stageAgentToken } from './credentials/agent-token.service.ts';
export { CachedAgentCredentials } from './credentials/cached-agent-credentials.ts';
export { supportsCommand } from './capabilities.ts';
export { assertDeviceQuota } from './management/device-quota.ts';
export { createDeviceStore } from './presence/device-store.ts';
export type { TellAutoUpdate } from './management/update.service.ts';
export { deviceRoutes } from './device.routes.ts';
export { costOfListing, Device, DeviceQuery } from './device.schema.ts';
export {
  commandTargets,
  devicesFound,
  findDevice,
  type CommandTarget,
  listDevices,
  positionsOutsideOrganization,
  readDevice,
} from './device.service.ts';
export { MaintenanceEnd } from './management/maintenance-end.ts';
export { presenceOf, selectDevices, toSummary, type DeviceRow } from './device.queries.ts';
export { Device as DeviceModel, DevicePresence } from './device.model.ts';
export { deviceRetention } from './retention.ts';
