import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { partnerRoutes } from './partner.routes.ts';

export {
  AgentUpdateSettings,
  type CheckPins,
  MaintenanceWindow,
  UpdatePolicy,
  VersionPin,
  Weekday,
} from './agent-update-settings.schema.ts';
export { mergeOrder, storedOrder } from './organization-order.ts';
export { Partner } from './partner.model.ts';
export { createPartner } from './partner.service.ts';

export const feature = defineFeature({
  name: 'partners',
  routes: (parts: Parameters<typeof partnerRoutes>[0]) => [partnerRoutes(parts)],
  tables: [bounded('partners', CREATED_BY_PEOPLE)],
});
