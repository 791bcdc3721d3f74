export { BETWEEN_TEXTS } from './rank.ts';
export { searchRoutes } from './search.routes.ts';
