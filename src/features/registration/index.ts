import { byRules } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { addRegistrationJobs } from './confirmation.ts';
import { registrationRoutes } from './registration.routes.ts';
import { registrationRetention } from './registration.model.ts';

export { createRegistration, slugCandidates } from './registration.service.ts';

export const feature = defineFeature({
  name: 'registration',
  routes: (parts: Parameters<typeof registrationRoutes>[0]) => [registrationRoutes(parts)],
  jobs: addRegistrationJobs,
  tables: byRules(registrationRetention),
});
