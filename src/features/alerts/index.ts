import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules } from '../../platform/db/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { AlertRounds, type RoundTiming } from './alert.work.ts';
import { alertRoutes } from './alert.routes.ts';
import { alertRetention } from './alert.model.ts';

export type { RoundTiming } from './alert.work.ts';
export { AlertSeverity, AlertStatus } from './alert.schema.ts';
export { alertSearch } from './alert.service.ts';
export {
  type NewAlert,
  type StandingCause,
  endLastingAlerts,
  followCauses,
  raiseAlert,
  raiseAlerts,
  raiseLastingAlerts,
  resolveAlert,
  resolveAlerts,
  standingAlert,
  standingCauses,
} from './alert.queries.ts';

interface WorkerParts {
  db: Db;
  log: Logger;
  metrics: Metrics;
  alertTiming?: Partial<RoundTiming> | undefined;
}

export const feature = defineFeature({
  name: 'alerts',
  routes: () => [alertRoutes],
  workers: ({ db, log, metrics, alertTiming }: WorkerParts) => {
    const rounds = new AlertRounds({ db, log, timing: alertTiming });
    metrics.gauge(
      'muster_alert_organizations_failing',
      'Organizations whose alert rules could not be evaluated.',
      () => rounds.failing(),
    );
    return { 'alert rounds': rounds };
  },
  tables: [
    ...byRules(alertRetention),
    bounded('alert_settings', ONE_PER_ORGANIZATION),
    bounded('alert_rounds', 'it has one row'),
  ],
});
