export { scriptRoutes } from './script.routes.ts';
