import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { scriptRoutes } from './script.routes.ts';

export { scriptSearch } from './script-search.ts';
export { scriptVersions } from './script.service.ts';

export const feature = defineFeature({
  name: 'scripts',
  routes: (parts: Parameters<typeof scriptRoutes>[0]) => [scriptRoutes(parts)],
  tables: [bounded('scripts', CREATED_BY_PEOPLE)],
});
