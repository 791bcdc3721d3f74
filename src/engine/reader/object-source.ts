/** Where the reader gets the objects of a repository from: a folder, Muster's own store, or an S3 bucket. */

export type ObjectType = 'index' | 'key' | 'snapshot' | 'data';

export interface ObjectRange {
  offset: number;
  length: number;
}

export interface ObjectSource {
  /** The names of all objects of a type, in any order. */
  list(type: ObjectType): AsyncIterable<{ name: string; size: number }>;
  /** One object, or a part of it. Rejects where it does not exist. */
  get(type: ObjectType, name: string, range?: ObjectRange): Promise<Uint8Array>;
}
