import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { executionRoutes } from './executions/execution.routes.ts';
import { addRecoveryJobs } from './executions/work/recovery.jobs.ts';
import { executionRetention } from './executions/retention.ts';
import { planRoutes } from './plans/plan.routes.ts';

export { RECOVERY_WORK } from './executions/recovery-work.ts';

export const feature = defineFeature({
  name: 'recovery',
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
