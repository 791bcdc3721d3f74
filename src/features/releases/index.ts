import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { targetRoutes } from './targets/target.routes.ts';

export const feature = defineFeature({
  name: 'releases',
  routes: () => [targetRoutes],
  tables: [
    bounded('agent_releases', 'an operator publishes them one by one, and removes those that are not needed'),
    bounded('release_signing_keys', 'an operator creates them by hand'),
  ],
});
