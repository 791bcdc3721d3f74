export { createApiKeyCallers } from './api-key-callers.ts';
export { apiKeyRoutes } from './api-key.routes.ts';
export { revokeKeysOf } from './api-key.service.ts';
