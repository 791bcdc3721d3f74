export { Partner } from './partner.model.ts';
export { partnerRoutes } from './partner.routes.ts';
