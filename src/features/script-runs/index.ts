import { byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { addScriptRunJobs } from './script-run.job.ts';
import { scriptRunRetention } from './script-run.model.ts';
import { scriptRunRoutes } from './script-run.routes.ts';

export { startRunOfSchedule } from './scheduled-run.ts';
export { SECRETS_MAX_LENGTH } from './script-run.schema.ts';

export const feature = defineFeature({
  name: 'script-runs',
  routes: (parts: Parameters<typeof scriptRunRoutes>[0]) => [scriptRunRoutes(parts)],
  jobs: addScriptRunJobs,
  tables: [...byRules(scriptRunRetention), cascade('script_run_devices', 'script_runs')],
});
