export { withDevicesOfTarget } from './target.queries.ts';
export { DeviceTarget, type TargetOwner } from './target.schema.ts';
export { assertTarget } from './target.service.ts';
