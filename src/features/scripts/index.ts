import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { scriptRoutes } from './script.routes.ts';

export { scriptSearch, scriptVersions } from './script.queries.ts';

export const feature = defineFeature({
  name: 'scripts',
  routes: (parts: Parameters<typeof scriptRoutes>[0]) => [scriptRoutes(parts)],
  tables: [bounded('scripts', CREATED_BY_PEOPLE)],
});
