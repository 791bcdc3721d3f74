import { byRules } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { alertRoutes } from './alert.routes.ts';
import { alertRetention } from './alert.model.ts';

export {
  AlertKind,
  AlertSeverity,
  AlertStatus,
  KIND_OF_ONE_RULE,
  kindFamily,
  type RuleFamily,
} from './alert.schema.ts';
export { alertReport } from './alert-report.queries.ts';
export { alertTrend } from './alert-trend.queries.ts';
export { alertSearch } from './alert.service.ts';
export {
  alertTimeline,
  endCausesSql,
  endLastingAlerts,
  followCauses,
  type NewAlert,
  notCoolingDown,
  raiseAlert,
  raiseAlerts,
  raiseLastingAlerts,
  raiseOfRules,
  raiseSql,
  resolveAlert,
  resolveAlerts,
  SEVERITY_RANK,
  standingAlert,
  type StandingCause,
  standingCauses,
  STANDS,
} from './alert.queries.ts';

export const feature = defineFeature({
  name: 'alerts',
  routes: () => [alertRoutes],
  tables: byRules(alertRetention),
});
