import { v7 } from 'uuid';

/** A new primary key: UUIDv7, so that rows made together lie together. */
export const newId = (): string => v7();
