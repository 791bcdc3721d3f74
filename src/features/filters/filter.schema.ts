import { z } from 'zod';
import { DeviceStatus, OsType } from '../../protocol/index.ts';
import { Id, nfcText, Timestamp, wholeNumber } from '../../platform/http/fields.ts';
import { conditionFaults } from '../conditions/index.ts';

const GROUP = {
  id: 'ConditionGroup',
  type: 'object',
  description:
    'Conditions of which all (AND) or at least one (OR) must hold. Each is a condition { field, operator, value } or another group, nested to any depth.',
  required: ['operator', 'conditions'],
  properties: {
    operator: { enum: ['AND', 'OR'] },
    conditions: {
      type: 'array',
      minItems: 1,
      items: {
        anyOf: [
          {
            type: 'object',
            required: ['field', 'operator'],
            properties: {
              field: { type: 'string', description: 'Case-sensitive, such as hostname or custom.rack.' },
              operator: { type: 'string' },
              value: { description: 'Omit it for isNull, isNotNull, isEmpty and isNotEmpty.' },
            },
          },
          { $ref: '#/$defs/ConditionGroup' },
        ],
      },
    },
  },
} as const;

/** Not a recursive schema, because conditions may be nested more deeply than zod can recurse. */
const ConditionGroup = z.unknown().meta(GROUP);

/** Conditions on custom fields are validated later, against the definitions. */
const Conditions = z
  .unknown()
  .superRefine((value, context) => {
    for (const { path, message } of conditionFaults(value, '')) {
      context.addIssue({ code: 'custom', path: path.split('.').filter(Boolean), message });
    }
  })
  .meta(GROUP);

const Fault = z.object({ path: z.string(), message: z.string() });

export const Filter = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    conditions: ConditionGroup,
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
    faults: z
      .array(Fault)
      .optional()
      .describe(
        'Present if the conditions refer to something that no longer exists. The filter finds no devices until this is corrected.',
      ),
  })
  .meta({ id: 'Filter' });

export const FilterList = z.object({
  data: z.array(Filter.omit({ faults: true })),
  total: z.number().int(),
});

const fields = {
  name: nfcText(200).trim(),
  description: nfcText(1000, 0).nullable(),
  conditions: Conditions,
};

export const NewFilter = z.strictObject({
  ...fields,
  description: fields.description.optional(),
  orgId: z
    .string()
    .optional()
    .describe('Required in partner and system scope; ignored in organization scope.'),
});
export type NewFilter = z.infer<typeof NewFilter>;

export const FilterPatch = z.strictObject({ ...fields, conditions: Conditions.optional() }).partial();
export type FilterPatch = z.infer<typeof FilterPatch>;

export const FilterQuery = z.object({
  search: nfcText(200)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the name or description, case-insensitive.'),
});
export type FilterQuery = z.infer<typeof FilterQuery>;

const limit = z.number().int().min(1).max(100);
const DEFAULT_LIMIT = 10;

export const PreviewRequest = z.strictObject({
  conditions: Conditions,
  limit: limit.default(DEFAULT_LIMIT),
  orgId: Id.optional().describe(
    'Only devices of this organization. Default: of all that the caller can access.',
  ),
  siteId: Id.optional().describe('Only devices of this site.'),
});
export type PreviewRequest = z.infer<typeof PreviewRequest>;
export const PreviewQuery = z.object({
  limit: wholeNumber(DEFAULT_LIMIT, 1, 100).meta({ type: 'string', description: '1 to 100; default 10.' }),
});

const PreviewedDevice = z.object({
  id: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable(),
  osType: OsType,
  status: DeviceStatus,
  lastSeenAt: Timestamp.nullable(),
});
export type PreviewedDevice = z.input<typeof PreviewedDevice>;

export const Preview = z.object({
  data: z.object({
    totalCount: z.number().int().describe('All matching devices, including those beyond the limit.'),
    devices: z.array(PreviewedDevice),
    evaluatedAt: Timestamp,
  }),
});

export const ExplainRequest = z.strictObject({
  conditions: Conditions.optional(),
  filterId: z.uuid().optional().describe('Instead of conditions.'),
  deviceId: z.uuid(),
});
export type ExplainRequest = z.infer<typeof ExplainRequest>;

export const EXPLAINED_MAX = 1000;

export const Explanation = z.object({
  data: z.object({
    deviceId: z.uuid(),
    matched: z.boolean(),
    conditions: z
      .array(
        z.object({
          path: z.string(),
          field: z.string(),
          operator: z.string(),
          matched: z.boolean(),
          value: z.unknown().describe('The value of the device that the condition saw; null: no value.'),
          valueCount: z
            .number()
            .int()
            .optional()
            .describe('For a list: the number of its values, if more than are shown.'),
        }),
      )
      .describe(`In order; at most the first ${EXPLAINED_MAX}.`),
    conditionCount: z.number().int().optional().describe('How many there are, where more than are listed.'),
    evaluatedAt: Timestamp,
  }),
});

const Use = z.object({ kind: z.string(), id: z.uuid(), name: z.string() });
export type Use = z.infer<typeof Use>;
export const Usage = z.object({ data: z.array(Use) });
