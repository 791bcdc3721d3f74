import type { MatchableDevice } from './matchable-device.ts';
import type { Sql } from './sql-fragment.ts';

export type Kind =
  | 'string'
  | 'enum'
  | 'number'
  | 'boolean'
  | 'datetime'
  /** Of a time, how many days ago it was. */
  | 'days'
  | 'uuid'
  | 'list'
  /** Ids, of which a device has any number. */
  | 'uuids'
  /** Names of software, of which some are asked for. */
  | 'software'
  /** The same, of which none may be there. */
  | 'noSoftware';

/** What of a device has to be known, or has to change, for an answer to be another one: a part of it. */
export type Dependency = Exclude<keyof MatchableDevice, 'id'>;

/** Of a single value: text (also of a boolean), a number, or a time in milliseconds. Of many: texts. */
export type Value = string | number | readonly string[] | null;

/** A value in memory, and the one part of a device that it comes from. */
export interface Reading {
  reads: Dependency;
  value: (device: MatchableDevice) => Value;
}

interface FieldBase extends Reading {
  key: string;
}

export interface SingleField extends FieldBase {
  kind: 'string' | 'enum' | 'number' | 'boolean' | 'datetime' | 'days' | 'uuid';
  /** Of an enum: what there is. */
  options?: readonly string[];
  /** Its value: of type text, float8, timestamptz or uuid. */
  sql: Sql;
}

export interface ManyField extends FieldBase {
  kind: 'list' | 'uuids' | 'software' | 'noSoftware';
  sql: ManySql;
}

export type Field = SingleField | ManyField;

export const isMany = (field: Field): field is ManyField => 'some' in field.sql;

export interface ManySql {
  /** Whether there is one among them of which `test` of the expression is true. */
  some(test: (element: string) => Sql): Sql;
  /** Whether any of the values is among them. */
  overlap(values: readonly string[]): Sql;
  /** Whether all of the values are among them. */
  include(values: readonly string[]): Sql;
  isNull: Sql;
}

/** It is given nothing else of the device: so what a field reads is what it says that it reads. */
export function reading<P extends Dependency>(reads: P, value: (part: MatchableDevice[P]) => Value): Reading {
  return { reads, value: (device) => value(device[reads]) };
}

/** Of a custom field, by its definition. */
export type CustomKind = 'string' | 'number' | 'boolean' | 'date' | 'list';
/** Keys that are defined. Others are read as text. */
export type CustomKinds = ReadonlyMap<string, CustomKind>;
