import { bounded, cascade } from '../../platform/db/retention-rule.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { CREATED_BY_PEOPLE, defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { alertRuleRoutes } from './alert-rule.routes.ts';
import { AlertRounds, type RoundTiming } from './alert-rule.work.ts';
import { WatchedFilters } from './watched-filters.ts';

export type { RoundTiming } from './alert-rule.work.ts';
export { alertRulesUseFilters } from './alert-rule.service.ts';
export { FigureWatch } from './figure-watch.ts';
export { RuleBook } from './rule-book.ts';

interface WorkerParts {
  db: Db;
  backgroundDb: Db;
  log: Logger;
  metrics: Metrics;
  alertTiming?: Partial<RoundTiming> | undefined;
}

export const feature = defineFeature({
  name: 'alert-rules',
  routes: () => [alertRuleRoutes],
  workers: ({ db, backgroundDb, log, metrics, alertTiming }: WorkerParts) => {
    const rounds = new AlertRounds({ db, log, timing: alertTiming });
    const filters = new WatchedFilters({ backgroundDb, log });
    metrics.gauge(
      'muster_alert_organizations_failing',
      'Organizations whose alert rules could not be evaluated.',
      () => rounds.failing(),
    );
    metrics.gauge(
      'muster_alert_filters_failing',
      'Filters of alert rules whose devices could not be determined.',
      () => filters.failing(),
    );
    return { 'alert filters': filters, 'alert rounds': rounds };
  },
  tables: [
    bounded('alert_rules', CREATED_BY_PEOPLE),
    cascade('alert_rule_matches', 'alert_rules'),
    cascade('alert_rule_checks', 'alert_rules'),
    cascade('watched_filters', 'saved_filters'),
    cascade('watched_filter_members', 'watched_filters'),
    bounded('alert_rounds', 'it has one row'),
    // The release before reads it.
    bounded('alert_settings', ONE_PER_ORGANIZATION),
  ],
});
