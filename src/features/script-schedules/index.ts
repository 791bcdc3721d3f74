import { bounded, cascade } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { runScriptSchedules } from './schedule.job.ts';
import { scriptScheduleRoutes } from './schedule.routes.ts';

export { SEALED_SCHEDULE_SECRET } from './schedule-secrets.ts';
export { scriptSchedulesUseFilters } from './schedule.service.ts';

export const feature = defineFeature({
  name: 'script-schedules',
  routes: (parts: Parameters<typeof scriptScheduleRoutes>[0]) => [scriptScheduleRoutes(parts)],
  jobs: runScriptSchedules,
  tables: [
    bounded('script_schedules', CREATED_BY_PEOPLE),
    cascade('script_schedule_secrets', 'script_schedules'),
  ],
});
