export { firstSiteOf, readSite } from './site.service.ts';
export { siteRoutes } from './site.routes.ts';
