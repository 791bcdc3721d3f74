import { cascade } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { apiKeyRoutes } from './api-key.routes.ts';

export { createApiKeyCallers } from './api-key-callers.ts';
export { revokeKeysOf } from './api-key.service.ts';

export const feature = defineFeature({
  name: 'api-keys',
  routes: () => [apiKeyRoutes],
  // Uses are counted in the key's own row.
  tables: [cascade('api_keys', 'users')],
});
