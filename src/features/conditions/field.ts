import type { MatchableDevice } from './matchable-device.ts';
import type { Sql } from './sql.ts';

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

/** What of a device has to be known, or has to change, for an answer to be another one. */
export type Dependency = 'presence' | 'lastSeen' | 'metrics' | 'software' | 'groups' | 'custom' | 'facts';

/** Of a single value: text (also of a boolean), a number, or a time in milliseconds. Of many: texts. */
export type Value = string | number | readonly string[] | null;

interface FieldBase {
  key: string;
  reads: readonly Dependency[];
  /** In memory. */
  value(device: MatchableDevice): Value;
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

export interface ManySql {
  /** Whether there is one among them of which `test` of the expression is true. */
  some(test: (element: string) => Sql): Sql;
  /** Whether any of the values is among them. */
  overlap(values: readonly string[]): Sql;
  /** Whether all of the values are among them. */
  include(values: readonly string[]): Sql;
  isNull: Sql;
}

/** Of a custom field, by its definition. */
export type CustomKind = 'string' | 'number' | 'boolean' | 'date' | 'list';
/** Keys that are defined. Others are read as text. */
export type CustomKinds = ReadonlyMap<string, CustomKind>;
