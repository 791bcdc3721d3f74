import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { siteRoutes } from './site.routes.ts';

export { Site } from './site.model.ts';
export { siteSearch } from './site.queries.ts';
export { createSite, firstSiteOf, readSite } from './site.service.ts';

export const feature = defineFeature({
  name: 'sites',
  routes: () => [siteRoutes],
  tables: [bounded('sites', CREATED_BY_PEOPLE)],
});
