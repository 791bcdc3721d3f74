export { withPatternTimeout, assertPatternsCompile } from './sql/pattern-timeout.ts';
export {
  conditionFaults,
  Conditions,
  invalidConditions,
  parseConditions,
  type Reference,
} from './conditions.ts';
export { conditionsText } from './language/conditions-text.ts';
export { customKey } from './fields/custom-field.ts';
export { decommissionedDevices, PRESENCE_JOIN, STATUS_SQL, visibleDevices } from './fields/device-source.ts';
export type { Fault } from './language/faults.ts';
export type { CustomKind, CustomKinds } from './fields/field.ts';
export type { MatchableDevice } from './fields/matchable-device.ts';
export { selectMatchable, toMatchable } from './memory/matchable-row.ts';
export { whereMatching } from './sql/where-matching.ts';
