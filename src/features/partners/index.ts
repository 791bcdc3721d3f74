export { partnerRoutes } from './partner.routes.ts';
