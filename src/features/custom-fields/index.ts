export { customFieldRoutes } from './custom-field.routes.ts';
export type { CustomFieldType } from './custom-field.schema.ts';
export { customFieldKinds, definitionsOf } from './custom-field.service.ts';
export { type CustomValues, type Definitions, faultsOf, fits } from './custom-values.ts';
