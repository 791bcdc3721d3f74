/**
 * What commands beside the server need of releases. The door of the feature loads all of it, which takes longer than any of
 * these commands.
 */
export {
  addRelease,
  listAllReleases,
  type OperatorParts,
  promoteVersion,
  rotateReleaseKey,
  signReleases,
} from './registry/operator.ts';
export { Architecture, Component, OperatingSystem } from './registry/platform.ts';
export type { Promotion } from './registry/promotion.ts';
export { openReleaseFiles } from './registry/release-files.ts';
export { ReleaseKeys } from './registry/release-keys.ts';
export type { PromoteRequest } from './registry/release.schema.ts';
export { Version } from './registry/version.ts';
