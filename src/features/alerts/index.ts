import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules } from '../../platform/db/retention/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { AlertRounds, type RoundTiming } from './alert-rounds.ts';
import { alertRoutes } from './alert.routes.ts';
import { alertRetention } from './retention.ts';

export type { RoundTiming } from './alert-rounds.ts';
export { AlertSeverity, AlertStatus } from './alert.schema.ts';
export { alertSearch } from './alert-search.ts';
export type { NewAlert, StandingCause } from './raise.ts';
export {
  endLastingAlerts,
  followCauses,
  raiseAlert,
  raiseAlerts,
  raiseLastingAlerts,
  resolveAlert,
  resolveAlerts,
  standingAlert,
  standingCauses,
} from './raise.ts';

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
