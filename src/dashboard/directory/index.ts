export { DIRECTORY, useNames, useOrganizations, useSites } from './directory.ts';
