export { askDatabase, tryPatterns } from './ask-database.ts';
export {
  conditionFaults,
  Conditions,
  faultyConditions,
  parseConditions,
  type Reference,
} from './conditions.ts';
export { conditionsText } from './conditions-text.ts';
export { customKey } from './custom-field.ts';
export { decommissionedDevices, PRESENCE_JOIN, STATUS_SQL, visibleDevices } from './device-source.ts';
export type { Fault } from './faults.ts';
export type { CustomKind, CustomKinds } from './field.ts';
export type { MatchableDevice } from './matchable-device.ts';
export { selectMatchable, toMatchable } from './matchable-row.ts';
export { whereMatching } from './where-matching.ts';
