import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { scriptRoutes } from './script.routes.ts';

export { Script } from './script.model.ts';
export { assertValuesFit, missingSecrets, withDefaults, withoutSecrets } from './script-parameters.ts';
export {
  SCRIPT_FINGERPRINT,
  scriptSearch,
  scriptsToRead,
  scriptVersions,
  versionOfScript,
} from './script.queries.ts';
export { findScriptOf, readScript } from './script.service.ts';

export const feature = defineFeature({
  name: 'scripts',
  routes: () => [scriptRoutes],
  tables: [bounded('scripts', CREATED_BY_PEOPLE)],
});
