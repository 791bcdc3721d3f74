import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { partnerRoutes } from './partner.routes.ts';

export {
  AgentUpdateSettings,
  type CheckPins,
  MaintenanceWindow,
  UpdatePolicy,
  VersionPin,
  Weekday,
} from './partner.schema.ts';
export { mergeOrder, storedOrder, createPartner } from './partner.service.ts';
export { Partner } from './partner.model.ts';

export const feature = defineFeature({
  name: 'partners',
  routes: (parts: Parameters<typeof partnerRoutes>[0]) => [partnerRoutes(parts)],
  tables: [bounded('partners', CREATED_BY_PEOPLE)],
});
