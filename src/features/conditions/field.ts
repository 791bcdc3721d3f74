import type {
  Architecture,
  DeviceStatus,
  Hardware,
  Metrics,
  Network,
  OsType,
  PlannedMaintenance,
} from '../../protocol/index.ts';
import type { Averages } from './averages.ts';

/** An SQL fragment with a `?` for each value. */
export interface Sql {
  text: string;
  values: readonly SqlValue[];
}
export type SqlValue = string | number | readonly string[];

export const sql = (text: string, ...values: readonly SqlValue[]): Sql => ({ text, values });

export type Kind =
  | 'string'
  | 'enum'
  | 'number'
  | 'boolean'
  | 'datetime'
  /** The age of a time in days. */
  | 'days'
  | 'uuid'
  | 'list'
  /** Ids; a device can have any number of them. */
  | 'uuids'
  /** Names of installed software. */
  | 'software'
  /** The same, but a condition holds if no name matches. */
  | 'noSoftware';

/** A part of a device that the result of a condition depends on. */
export type Dependency = Exclude<keyof MatchableDevice, 'id'>;

/** A text (also for booleans), a number, a time in milliseconds, or a list of texts. */
export type Value = string | number | readonly string[] | null;

/** How a value is read in memory, and the part of the device that it comes from. */
export interface Reading {
  reads: Dependency;
  value: (device: MatchableDevice) => Value;
}

interface FieldBase extends Reading {
  key: string;
}

export interface SingleField extends FieldBase {
  kind: 'string' | 'enum' | 'number' | 'boolean' | 'datetime' | 'days' | 'uuid';
  /** The values of an enum. */
  options?: readonly string[];
  /** The value, as text, float8, timestamptz or uuid. */
  sql: Sql;
}

export interface ManyField extends FieldBase {
  kind: 'list' | 'uuids' | 'software' | 'noSoftware';
  sql: ManySql;
}

export type Field = SingleField | ManyField;

export const isMany = (field: Field): field is ManyField => 'some' in field.sql;

export interface ManySql {
  /** Whether `test` holds for at least one element. */
  some(test: (element: string) => Sql): Sql;
  /** Whether at least one of the values is an element. */
  overlap(values: readonly string[]): Sql;
  /** Whether all of the values are elements. */
  include(values: readonly string[]): Sql;
  isNull: Sql;
}

/** The function receives only the declared part, so a field cannot depend on anything else. */
export function reading<P extends Dependency>(reads: P, value: (part: MatchableDevice[P]) => Value): Reading {
  return { reads, value: (device) => value(device[reads]) };
}

/** The type of a custom field. */
export type CustomKind = 'string' | 'number' | 'boolean' | 'date' | 'list';
/** The types of the defined custom fields, by key. Other keys are read as text. */
export type CustomKinds = ReadonlyMap<string, CustomKind>;

/** A device for evaluation in memory. Times are in milliseconds. */
export interface MatchableDevice {
  id: string;
  orgId: string;
  siteId: string;
  groupIds: readonly string[];
  hostname: string;
  displayName: string | null;
  agentVersion: string;
  status: DeviceStatus;
  /** Shown with the device. No condition reads it. */
  maintenance: PlannedMaintenance | null;
  enrolledAt: number;
  lastSeenAt: number | null;
  tags: readonly string[];
  osType: OsType;
  osVersion: string;
  osBuild: string | null;
  architecture: Architecture;
  hardware: Hardware;
  network: Network;
  metrics: Metrics | null;
  averages: Averages;
  /** Names of installed software. Empty if they were not requested; see `Conditions.reads`. */
  software: readonly string[];
  customFields: Readonly<Record<string, unknown>>;
}
