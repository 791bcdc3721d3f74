import { z } from 'zod';
import { nfcText } from '../../platform/http/fields.ts';
import type { CustomFieldType } from './custom-field.schema.ts';

/** What devices may hold in their custom fields, told by the definitions of their organization. */

export type CustomValue = string | number | boolean | string[];
/** What is to become of the values of a device: `null` removes one, what is not named stays. */
export type CustomValues = Record<string, unknown>;
/** The type of each key. */
export type Definitions = ReadonlyMap<string, CustomFieldType>;

const VALUES: Record<CustomFieldType, { schema: z.ZodType<CustomValue>; rule: string }> = {
  string: { schema: nfcText(1000, 0), rule: 'must be a text of up to 1000 characters' },
  number: { schema: z.number(), rule: 'must be a number' },
  boolean: { schema: z.boolean(), rule: 'must be true or false' },
  date: {
    schema: z.union([z.iso.date(), z.iso.datetime({ offset: true })]),
    rule: 'must be a day or a time in ISO 8601, such as 2026-11-21 or 2026-11-21T08:00:00Z',
  },
  list: {
    schema: z.array(nfcText(255)).max(100),
    rule: 'must be a list of up to 100 texts of up to 255 characters',
  },
};

/** What is wrong with the values, key by key. */
export function faultsOf(values: CustomValues, definitions: Definitions): { key: string; message: string }[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const type = definitions.get(key);
    if (type === undefined) return [{ key, message: `is not a custom field of the organization` }];
    const { schema, rule } = VALUES[type];
    return value === null || schema.safeParse(value).success ? [] : [{ key, message: rule }];
  });
}
