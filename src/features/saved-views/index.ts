import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { savedViewRoutes } from './saved-view.routes.ts';

export const feature = defineFeature({
  name: 'saved-views',
  routes: () => [savedViewRoutes],
  tables: [bounded('saved_views', CREATED_BY_PEOPLE)],
});
