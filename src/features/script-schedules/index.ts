import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { runScriptSchedules } from './schedule.job.ts';
import { scriptScheduleRoutes } from './schedule.routes.ts';

export { scriptSchedulesUseFilters } from './schedule.service.ts';

export const feature = defineFeature({
  name: 'script-schedules',
  routes: () => [scriptScheduleRoutes],
  jobs: runScriptSchedules,
  tables: [bounded('script_schedules', CREATED_BY_PEOPLE)],
});
