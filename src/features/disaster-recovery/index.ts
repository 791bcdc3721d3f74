import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { executionRoutes, planRoutes } from './disaster-recovery.routes.ts';
import { addRecoveryJobs } from './execution.work.ts';
import { executionRetention } from './disaster-recovery.model.ts';

export { RECOVERY_WORK } from './disaster-recovery.queries.ts';

export const feature = defineFeature({
  name: 'disaster-recovery',
  routes: (parts: Parameters<typeof executionRoutes>[0]) => [planRoutes, executionRoutes(parts)],
  jobs: addRecoveryJobs,
  tables: [
    bounded('dr_plans', CREATED_BY_PEOPLE),
    cascade('dr_groups', 'dr_plans'),
    cascade('dr_pinned_scripts', 'dr_plans'),
    ...byRules(executionRetention),
    cascade('dr_steps', 'dr_executions'),
    cascade('dr_actions', 'dr_steps'),
  ],
});
