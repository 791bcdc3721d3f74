import { byRules, type RetentionRule } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { countTrendsHourly } from './trend.job.ts';
import { trendRoutes } from './trend.routes.ts';
import { KEPT_DAYS } from './trend.schema.ts';

/** The table has no model, because its rows are written and read as sums only. */
const fleetDayRetention: RetentionRule = {
  table: 'fleet_days',
  key: ['org_id', 'day'],
  days: KEPT_DAYS,
  isOver: (days) => `old.day < current_date - ${days}`,
};

export const feature = defineFeature({
  name: 'fleet-trends',
  routes: () => [trendRoutes],
  jobs: countTrendsHourly,
  tables: byRules([fleetDayRetention]),
});
