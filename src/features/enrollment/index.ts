import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { enrollmentRoutes } from './enrollment.routes.ts';

export { enrollLimits } from './enroll.service.ts';
export { createEnrollmentKey } from './enrollment-key.service.ts';

export const feature = defineFeature({
  name: 'enrollment',
  routes: (parts: Parameters<typeof enrollmentRoutes>[0]) => [enrollmentRoutes(parts)],
  tables: [bounded('enrollment_keys', 'people create them one by one')],
});
