export { withDevicesOfTarget } from './target.queries.ts';
export { DeviceTarget } from './target.schema.ts';
export { assertTarget } from './target.service.ts';
