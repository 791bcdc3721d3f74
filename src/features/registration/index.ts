export { registrationRoutes } from './registration.routes.ts';
export { createRegistration, type Registration } from './registration.service.ts';
export { registrationRetention } from './retention.ts';
