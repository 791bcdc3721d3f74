import type { CustomKind, Field, ManyField } from './field.ts';
import { INSTANT_PATTERN, spanOf } from './instants.ts';
import type { MatchableDevice } from './matchable-device.ts';
import { sql, type Sql } from './sql.ts';

const CUSTOM = 'custom.';
const CUSTOM_KEY_MAX = 255;

/** The key of a custom field, of a name that is one. */
export function customKey(name: string): string | undefined {
  if (!name.startsWith(CUSTOM)) return undefined;
  const key = name.slice(CUSTOM.length);
  return key === '' || key.length > CUSTOM_KEY_MAX ? undefined : key;
}

/**
 * A value of a custom field is read where it is of the type that the definition names, and is else none: in JSON
 * anything may stand. The CASE keeps Postgres from reading what it cannot.
 */
export function customField(name: string, kind: CustomKind): Field {
  const key = `${CUSTOM}${name}`;
  const value = ({ customFields }: MatchableDevice): unknown =>
    Object.hasOwn(customFields, name) ? customFields[name] : null;
  const guarded = (types: string, expression: string, keys = 2): Sql =>
    sql(
      `case when jsonb_typeof(d.custom_fields -> ?) ${types} then ${expression} end`,
      ...Array.from({ length: keys }, () => name),
    );
  const base = { key, reads: ['custom'] as const };
  switch (kind) {
    case 'string':
      return {
        ...base,
        kind,
        sql: guarded(`in ('string', 'number', 'boolean')`, 'd.custom_fields ->> ?'),
        value: (device) => scalarText(value(device)),
      };
    case 'number':
      return {
        ...base,
        kind,
        sql: guarded(`= 'number'`, '(d.custom_fields ->> ?)::float8'),
        value: (device) => {
          const found = value(device);
          return typeof found === 'number' ? found : null;
        },
      };
    case 'boolean':
      return {
        ...base,
        kind,
        sql: guarded(`= 'boolean'`, 'd.custom_fields ->> ?'),
        value: (device) => {
          const found = value(device);
          return typeof found === 'boolean' ? String(found) : null;
        },
      };
    case 'date':
      return {
        ...base,
        kind: 'datetime',
        sql: sql(
          `case when d.custom_fields ->> ? ~ '${INSTANT_PATTERN.replaceAll('?', String.raw`\?`)}' then date_trunc('milliseconds',
            regexp_replace(d.custom_fields ->> ?, '^(.{10})$', '\\1T00:00Z')::timestamptz) end`,
          name,
          name,
        ),
        value: (device) => {
          const found = value(device);
          return typeof found === 'string' ? (spanOf(found)?.from ?? null) : null;
        },
      };
    case 'list':
      return { ...base, kind, ...customList(name, value) };
    default:
      return kind satisfies never;
  }
}

function customList(
  name: string,
  value: (device: MatchableDevice) => unknown,
): Pick<ManyField, 'sql' | 'value'> {
  const isList = `jsonb_typeof(d.custom_fields -> ?) = 'array'`;
  return {
    value: (device) => {
      const found = value(device);
      return Array.isArray(found) ? found.filter((one) => typeof one === 'string') : null;
    },
    sql: {
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
    },
  };
}

/** A number or a boolean as text, as JSON in Postgres shows it. */
function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return typeof value === 'number' ? plainDecimal(value) : null;
}

/** Without an exponent. */
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
