import { type CustomKind, type Field, type ManySql, reading, type Reading, type Value } from './field.ts';
import { INSTANT_PATTERN, spanOf } from './instants.ts';
import { sql, type Sql } from './sql-fragment.ts';

const CUSTOM = 'custom.';
const CUSTOM_KEY_MAX = 255;

/** The key of a custom field, or undefined if the name is not that of a custom field. */
export function customKey(name: string): string | undefined {
  if (!name.startsWith(CUSTOM)) return undefined;
  const key = name.slice(CUSTOM.length);
  return key === '' || key.length > CUSTOM_KEY_MAX ? undefined : key;
}

/**
 * The value of a custom field, or null if the stored JSON is not of the defined type. The CASE keeps Postgres from casting
 * values that would fail.
 */
export function customField(name: string, kind: CustomKind): Field {
  const key = `${CUSTOM}${name}`;
  const found = (value: (found: unknown) => Value): Reading =>
    reading('customFields', (fields) => value(Object.hasOwn(fields, name) ? fields[name] : null));
  const guarded = (types: string, expression: string, keys = 2): Sql =>
    sql(
      `case when jsonb_typeof(d.custom_fields -> ?) ${types} then ${expression} end`,
      ...Array.from({ length: keys }, () => name),
    );
  switch (kind) {
    case 'string':
      return {
        key,
        kind,
        sql: guarded(`in ('string', 'number', 'boolean')`, 'd.custom_fields ->> ?'),
        ...found(scalarText),
      };
    case 'number':
      return {
        key,
        kind,
        sql: guarded(`= 'number'`, '(d.custom_fields ->> ?)::float8'),
        ...found((value) => (typeof value === 'number' ? value : null)),
      };
    case 'boolean':
      return {
        key,
        kind,
        sql: guarded(`= 'boolean'`, 'd.custom_fields ->> ?'),
        ...found((value) => (typeof value === 'boolean' ? String(value) : null)),
      };
    case 'date':
      return {
        key,
        kind: 'datetime',
        sql: sql(
          `case when d.custom_fields ->> ? ~ '${INSTANT_PATTERN.replaceAll('?', String.raw`\?`)}' then date_trunc('milliseconds',
            regexp_replace(d.custom_fields ->> ?, '^(.{10})$', '\\1T00:00Z')::timestamptz) end`,
          name,
          name,
        ),
        ...found((value) => (typeof value === 'string' ? (spanOf(value)?.from ?? null) : null)),
      };
    case 'list':
      return {
        key,
        kind,
        sql: customListSql(name),
        ...found((value) => (Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null)),
      };
    default:
      return kind satisfies never;
  }
}

function customListSql(name: string): ManySql {
  const isList = `jsonb_typeof(d.custom_fields -> ?) = 'array'`;
  return {
    some: (test) => {
      const element = test(`(one.value #>> '{}')`);
      return sql(
        `case when ${isList} then exists (select from jsonb_array_elements(d.custom_fields -> ?) as one (value)
          where jsonb_typeof(one.value) = 'string' and ${element.text}) end`,
        name,
        name,
        ...element.values,
      );
    },
    overlap: (values) =>
      sql(
        `case when ${isList} then jsonb_exists_any(d.custom_fields -> ?, ?::text[]) end`,
        name,
        name,
        values,
      ),
    include: (values) =>
      sql(
        `case when ${isList} then jsonb_exists_all(d.custom_fields -> ?, ?::text[]) end`,
        name,
        name,
        values,
      ),
    isNull: sql(`(${isList}) is not true`, name),
  };
}

/** A number or a boolean as the text that Postgres makes of the JSON. */
function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return typeof value === 'number' ? plainDecimal(value) : null;
}

/** A number in decimal notation without an exponent. */
function plainDecimal(value: number): string {
  const [, sign = '', whole = '', fraction = '', exponent] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(JSON.stringify(value)) ?? [];
  if (exponent === undefined) return JSON.stringify(value);
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits.padEnd(point, '0')}`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}
