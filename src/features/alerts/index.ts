import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules } from '../../platform/db/retention/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { AlertRounds, type RoundTiming } from './alert-rounds.ts';
import { alertRoutes } from './alert.routes.ts';
import { alertRetention } from './retention.ts';

export type { RoundTiming } from './alert-rounds.ts';
export { raiseAlert, resolveAlert } from './raise.ts';

export const feature = defineFeature({
  name: 'alerts',
  routes: () => [alertRoutes],
  workers: ({
    alertTiming: timing,
    ...parts
  }: {
    db: Db;
    log: Logger;
    alertTiming?: Partial<RoundTiming> | undefined;
  }) => ({
    'alert rounds': new AlertRounds({ ...parts, timing }),
  }),
  tables: [
    ...byRules(alertRetention),
    bounded('alert_settings', ONE_PER_ORGANIZATION),
    bounded('alert_rounds', 'it has one row'),
  ],
});
