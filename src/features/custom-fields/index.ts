import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { customFieldRoutes } from './custom-field.routes.ts';

export { CUSTOM_FIELD_CHANGED } from './custom-field.model.ts';
export { customFieldKinds, definitionsOf, definitionsToStoreBy } from './custom-field.service.ts';
export { type CustomValues, type Definitions, faultsOf } from './custom-field.schema.ts';

export const feature = defineFeature({
  name: 'custom-fields',
  routes: (parts: Parameters<typeof customFieldRoutes>[0]) => [customFieldRoutes(parts)],
  tables: [bounded('custom_fields', CREATED_BY_PEOPLE)],
});
