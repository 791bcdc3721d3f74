import { z } from 'zod';

/** One field of a message, as a table shows it. */
export interface SchemaField {
  /** The path of the field, such as `devices[].presence.state`. Empty for a message that is no object. */
  name: string;
  type: string;
  isRequired: boolean;
  /** Empty where the name says it all. */
  meaning: string;
}

interface JsonSchema {
  type?: string | string[];
  format?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | boolean;
  required?: string[];
  items?: JsonSchema;
  description?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxItems?: number;
  default?: unknown;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

/**
 * The fields of an object schema, nested ones included, each parent before its children.
 * @param io  `input` for what a sender writes, `output` for what a receiver gets
 */
export function fieldsOf(schema: z.ZodType, io: 'input' | 'output'): SchemaField[] {
  const root = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonSchema;
  return childrenOf(root, '', root.$defs ?? {});
}

type Definitions = Readonly<Record<string, JsonSchema>>;

function childrenOf(schema: JsonSchema, prefix: string, definitions: Definitions): SchemaField[] {
  const { properties = {}, required = [] } = resolved(schema, definitions);
  return Object.entries(properties).flatMap(([key, property]) => {
    const name = prefix === '' ? key : `${prefix}.${key}`;
    const field = {
      name,
      type: typeOf(property, definitions),
      isRequired: required.includes(key),
      meaning: meaningOf(property, definitions),
    };
    return [field, ...nestedOf(property, name, definitions)];
  });
}

/** The fields of an object, of the objects in a list, or of the one object among alternatives. */
function nestedOf(schema: JsonSchema, name: string, definitions: Definitions): SchemaField[] {
  const { properties, items, anyOf } = resolved(schema, definitions);
  if (properties !== undefined) return childrenOf(schema, name, definitions);
  if (items !== undefined) return nestedOf(items, `${name}[]`, definitions);
  return (anyOf ?? []).flatMap((alternative) => nestedOf(alternative, name, definitions));
}

function resolved(schema: JsonSchema, definitions: Definitions): JsonSchema {
  const name = schema.$ref?.replace('#/$defs/', '');
  const definition = name === undefined ? undefined : definitions[name];
  return definition === undefined ? schema : { ...definition, ...schema };
}

function meaningOf(schema: JsonSchema, definitions: Definitions): string {
  const { description = '', default: preset } = resolved(schema, definitions);
  return preset === undefined ? description : `${description} Default: ${JSON.stringify(preset)}.`.trim();
}

function typeOf(schema: JsonSchema, definitions: Definitions): string {
  const full = resolved(schema, definitions);
  if (full.const !== undefined) return JSON.stringify(full.const);
  if (full.enum !== undefined) return full.enum.map((value) => JSON.stringify(value)).join(' | ');
  const alternatives = full.anyOf ?? full.oneOf;
  if (alternatives !== undefined) {
    return [...new Set(alternatives.map((alternative) => typeOf(alternative, definitions)))].join(' | ');
  }
  if (Array.isArray(full.type)) {
    return full.type.map((type) => typeOf({ ...full, type }, definitions)).join(' | ');
  }
  switch (full.type) {
    case 'array': {
      const most = full.maxItems === undefined ? '' : ` (at most ${full.maxItems})`;
      return `list${most} of ${full.items === undefined ? 'any' : typeOf(full.items, definitions)}`;
    }
    case 'object':
      return full.properties === undefined && typeof full.additionalProperties === 'object'
        ? `object of ${typeOf(full.additionalProperties, definitions)}`
        : 'object';
    case 'string':
      return full.format === undefined ? `string${lengthOf(full)}` : `string (${full.format})`;
    case 'integer':
    case 'number':
      return `${full.type}${rangeOf(full)}`;
    case undefined:
      return 'any';
    default:
      return full.type;
  }
}

function lengthOf({ minLength, maxLength }: JsonSchema): string {
  if (maxLength === undefined) return '';
  return minLength === undefined
    ? `, at most ${maxLength} characters`
    : `, ${minLength}–${maxLength} characters`;
}

function rangeOf({ minimum, exclusiveMinimum, maximum }: JsonSchema): string {
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  const least = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + 1);
  const isFromBelow = least !== undefined && least > Number.MIN_SAFE_INTEGER;
  if (isBounded && isFromBelow) return `, ${least}–${maximum}`;
  if (isBounded) return `, at most ${maximum}`;
  return isFromBelow ? `, at least ${least}` : '';
}
