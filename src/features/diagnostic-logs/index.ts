import { byRules } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { diagnosticLogRoutes } from './diagnostic-log.routes.ts';
import { diagnosticLogRetention } from './retention.ts';

export const feature = defineFeature({
  name: 'diagnostic-logs',
  routes: (parts: Parameters<typeof diagnosticLogRoutes>[0]) => [diagnosticLogRoutes(parts)],
  tables: byRules(diagnosticLogRetention),
});
