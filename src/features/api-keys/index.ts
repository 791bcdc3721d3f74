import { cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { apiKeyRoutes } from './api-key.routes.ts';

export { createApiKeyCallers } from './api-key-callers.ts';
export { createApiKeyOf, listEveryApiKey, revokeApiKeyById, revokeKeysOf } from './api-key.service.ts';
export type { ApiKey } from './api-key.model.ts';
export { NewApiKey } from './api-key.schema.ts';

export const feature = defineFeature({
  name: 'api-keys',
  routes: () => [apiKeyRoutes],
  // Uses are counted in the key's own row.
  tables: [cascade('api_keys', 'users')],
});
