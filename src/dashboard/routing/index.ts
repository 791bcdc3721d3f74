export { publicRoute, rootRoute, signedInRoute } from './parents.ts';
export { scopeQuery, useScope } from './scope.ts';
