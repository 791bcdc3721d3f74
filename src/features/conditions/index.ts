export {
  AVERAGED_METRICS,
  AVERAGES_CHANGED,
  type AveragedMetric,
  averageKey,
  type Averages,
  type AverageWindow,
} from './averages.ts';
export {
  withPatternTimeout,
  assertPatternsCompile,
  selectMatchable,
  toMatchable,
  whereMatching,
} from './condition.queries.ts';
export {
  conditionFaults,
  Conditions,
  invalidConditions,
  parseConditions,
  type Reference,
  conditionsText,
} from './conditions.ts';
export {
  customKey,
  decommissionedDevices,
  MAINTENANCE_SQL,
  PRESENCE_JOIN,
  STATUS_SQL,
  visibleDevices,
} from './fields.ts';
export type { Fault } from './rule.ts';
export type { CustomKind, CustomKinds, MatchableDevice } from './field.ts';
