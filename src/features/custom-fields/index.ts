export { customFieldRoutes } from './custom-field.routes.ts';
export { customFieldKinds, definitionsOf, definitionsToStoreBy } from './custom-field.service.ts';
export { type CustomValues, type Definitions, faultsOf } from './custom-values.ts';
