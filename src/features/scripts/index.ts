import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { scriptRoutes } from './script.routes.ts';

export { Script } from './script.model.ts';
export { assertValuesFit, withDefaults } from './script-parameters.ts';
export { scriptSearch, scriptVersions, versionOfScript } from './script.queries.ts';
export { findScriptOf, readScript } from './script.service.ts';

export const feature = defineFeature({
  name: 'scripts',
  routes: () => [scriptRoutes],
  tables: [bounded('scripts', CREATED_BY_PEOPLE)],
});
