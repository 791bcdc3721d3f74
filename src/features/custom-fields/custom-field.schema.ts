import { z } from 'zod';
import { nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const CustomFieldType = z
  .enum(['string', 'number', 'boolean', 'date', 'list'])
  .describe('`date` is a day or a time in ISO 8601; `list` is a list of texts.');
export type CustomFieldType = z.infer<typeof CustomFieldType>;

export const CustomField = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    key: z.string(),
    name: z.string(),
    type: CustomFieldType,
    description: z.string().nullable(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'CustomField' });

const fields = {
  name: nfcText(255).trim(),
  type: CustomFieldType,
  description: nfcText(1000).nullable().optional(),
};

export const NewCustomField = z.strictObject({
  ...fields,
  /** In lower case like the ids of the database, so that the two can be compared. */
  orgId: z.uuid().toLowerCase(),
  key: z
    .string()
    .regex(
      /^[a-z][a-z0-9_]{0,63}$/,
      'must start with a lower-case letter, followed by up to 63 characters of a–z, 0–9 and _',
    )
    .describe('Unique within the organization; cannot be changed.'),
});
export type NewCustomField = z.infer<typeof NewCustomField>;

export const CustomFieldPatch = z
  .strictObject({
    ...fields,
    type: CustomFieldType.describe('Can only be changed while no device has a value.'),
  })
  .partial();
export type CustomFieldPatch = z.infer<typeof CustomFieldPatch>;

export const CustomFieldQuery = PageQuery.extend({ orgId: z.uuid().optional() });
export type CustomFieldQuery = z.infer<typeof CustomFieldQuery>;

export const CustomFieldDeleted = z.object({
  success: z.literal(true),
  devicesChanged: z.number().int().describe('Number of devices whose value was removed.'),
});

/** Checks the custom fields of devices by the definitions of their organization. */

type CustomValue = string | number | boolean | string[];

/** A change of the values of a device: `null` removes one, and keys that are not named stay. */
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

/** The faults of the values, key by key. */
export function faultsOf(values: CustomValues, definitions: Definitions): { key: string; message: string }[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const type = definitions.get(key);
    if (type === undefined) return [{ key, message: `is not a custom field of the organization` }];
    const { schema, rule } = VALUES[type];
    return value === null || schema.safeParse(value).success ? [] : [{ key, message: rule }];
  });
}
