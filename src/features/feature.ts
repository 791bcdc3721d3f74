import type { BackgroundPart } from '../platform/close-stack.ts';
import type { RetentionPolicy } from '../platform/db/retention-rule.ts';
import type { RouteGroup } from '../platform/http/route.ts';

/**
 * The contributions of a feature to the server. The type parameters are the parts that its routes, workers and jobs
 * need from outside; `server.ts` does not compile until it provides the needs of every feature.
 */
export interface Feature<RouteParts, WorkerParts, JobParts> {
  /** The name of its folder. */
  name: string;
  routes: (parts: RouteParts) => readonly RouteGroup[];
  /** By the names under which they are closed. They start when the server listens, and end before the hub does. */
  workers: (parts: WorkerParts) => Readonly<Record<string, BackgroundPart>>;
  /** Adds the handlers and schedules of its background jobs (docs/decisions/jobs.md). */
  jobs: (parts: JobParts) => void;
  /** The tables that it owns, and what ends their rows (docs/decisions/row-life.md). */
  tables: readonly RetentionPolicy[];
}

/** Declares a feature. What is left out is empty. */
export function defineFeature<RouteParts = unknown, WorkerParts = unknown, JobParts = unknown>({
  name,
  routes = () => [],
  workers = () => ({}),
  jobs = () => {},
  tables = [],
}: Pick<Feature<RouteParts, WorkerParts, JobParts>, 'name'> &
  Partial<Feature<RouteParts, WorkerParts, JobParts>>): Feature<RouteParts, WorkerParts, JobParts> {
  return { name, routes, workers, jobs, tables };
}

/** Why the rows of a table do not grow without limit although nothing removes them. */
export const CREATED_BY_PEOPLE = 'people create these one by one, and they are what the product is about';
export const ONE_PER_DEVICE = 'a device has at most one row';
export const ONE_PER_ORGANIZATION = 'an organization has at most one row';
