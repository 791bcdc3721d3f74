export { publicRoute, rootRoute, signedInRoute } from './parents.ts';
export { scopeQuery, useScope, type Scope } from './scope.ts';
