export { DIRECTORY, useNames, useOrganizations, useProviders, useSites } from './directory.ts';
