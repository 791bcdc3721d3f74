import { v7 } from 'uuid';

let make: () => string = v7;

/** A new primary key: UUIDv7, so that rows made together lie together. */
export const newId = (): string => make();

/** Takes ids from elsewhere, for runs that are repeated exactly, and returns where they came from until now. */
export function takeIdsFrom(source: () => string): () => string {
  const former = make;
  make = source;
  return former;
}
