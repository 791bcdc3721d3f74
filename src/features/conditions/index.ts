export {
  conditionFaults,
  Conditions,
  type Explained,
  faultyConditions,
  parseConditions,
  type ParsedConditions,
  type Reference,
} from './conditions.ts';
export { conditionsText } from './conditions-text.ts';
export { decommissionedDevices, PRESENCE_JOIN, STATUS_SQL, visibleDevices } from './device-source.ts';
export type { Fault } from './faults.ts';
export type { CustomKind, CustomKinds, Dependency } from './field.ts';
export type { MatchableDevice } from './matchable-device.ts';
export { whereMatching } from './where-matching.ts';
