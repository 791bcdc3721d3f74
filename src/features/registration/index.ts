import { byRules } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { addRegistrationJobs } from './confirmation-mail.ts';
import { registrationRoutes } from './registration.routes.ts';
import { registrationRetention } from './retention.ts';

export { createRegistration } from './registration.service.ts';
export { slugCandidates } from './slug.ts';

export const feature = defineFeature({
  name: 'registration',
  routes: (parts: Parameters<typeof registrationRoutes>[0]) => [registrationRoutes(parts)],
  jobs: addRegistrationJobs,
  tables: byRules(registrationRetention),
});
