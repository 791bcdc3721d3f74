import { z } from 'zod';
import { invalidFields } from '../../platform/errors.ts';
import { nfcText } from '../../platform/http/fields.ts';
import { VariableName } from '../../protocol/index.ts';

/** The parameters that a script declares, and the values of a run by them. */

export const PARAMETERS_MAX = 30;
const VALUE_MAX = 4000;

const ParameterType = z
  .enum(['text', 'number', 'boolean', 'secret'])
  .describe(
    'A `boolean` is `true` or `false`. A `secret` is in SECRET_<name>, the others are in PARAM_<name>.',
  );
type ParameterType = z.infer<typeof ParameterType>;

const FITS: Record<ParameterType, (value: string) => boolean> = {
  text: () => true,
  secret: () => true,
  number: (value) => /^-?\d+(\.\d+)?$/.test(value),
  boolean: (value) => value === 'true' || value === 'false',
};
const RULES: Record<ParameterType, string> = {
  text: 'must be a text',
  secret: 'must be a text',
  number: 'must be a number, such as 30 or -1.5',
  boolean: 'must be true or false',
};

export const ScriptParameter = z
  .object({
    name: z.string(),
    type: ParameterType,
    description: z.string().nullable(),
    required: z.boolean(),
    defaultValue: z.string().nullable().describe('The value of a run that gives none.'),
  })
  .meta({ id: 'ScriptParameter' });
export type ScriptParameter = z.infer<typeof ScriptParameter>;

const NewScriptParameter = z
  .strictObject({
    name: VariableName,
    type: ParameterType.default('text'),
    description: nfcText(200, 0).nullable().default(null),
    required: z.boolean().default(false),
    defaultValue: nfcText(VALUE_MAX, 0).nullable().default(null),
  })
  .superRefine(({ type, required, defaultValue }, context) => {
    if (defaultValue === null) return;
    const refuse = (message: string) => context.addIssue({ code: 'custom', path: ['defaultValue'], message });
    if (type === 'secret') refuse('must be left out of a secret, because it would be shown');
    else if (required) refuse('must be left out if the parameter is required');
    else if (!FITS[type](defaultValue)) refuse(RULES[type]);
  });

/** Windows ignores the case of the names of variables. */
const keyOf = (name: string): string => name.toLowerCase();

export const ScriptParameters = z
  .array(NewScriptParameter)
  .max(PARAMETERS_MAX)
  .superRefine((parameters, context) => {
    const seen = new Set<string>();
    for (const [place, { name }] of parameters.entries()) {
      if (seen.has(keyOf(name))) {
        context.addIssue({
          code: 'custom',
          path: [place, 'name'],
          message: 'must not have the name of another parameter, ignoring case',
        });
      }
      seen.add(keyOf(name));
    }
  });

export interface GivenValues {
  parameters: Readonly<Record<string, string>>;
  /** The names of the secrets that are given. */
  secretNames: readonly string[];
}

/** The secrets that the script requires and that are not given. */
export const missingSecrets = (
  declared: readonly ScriptParameter[],
  secretNames: readonly string[],
): string[] =>
  declared.flatMap(({ name, type, required }) =>
    type === 'secret' && required && !secretNames.includes(name) ? [name] : [],
  );

/** The values without those of names that the script declares as secrets: it may have come to do so since they were given. */
export function withoutSecrets(
  declared: readonly ScriptParameter[],
  values: Readonly<Record<string, string>>,
): Record<string, string> {
  const secrets = new Set(declared.filter(({ type }) => type === 'secret').map(({ name }) => keyOf(name)));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !secrets.has(keyOf(name))));
}

/** What is wrong with the values of a run. Values that the script does not declare are none of its faults. */
export function parameterFaults(
  declared: readonly ScriptParameter[],
  { parameters, secretNames }: GivenValues,
): { path: string; message: string }[] {
  const values = new Map(Object.entries(parameters));
  const missing = missingSecrets(declared, secretNames);
  return declared.flatMap(({ name, type, required }) => {
    const path = `parameters.${name}`;
    const value = values.get(name);
    if (type === 'secret') {
      return [
        ...(missing.includes(name)
          ? [{ path: `secrets.${name}`, message: 'is required by the script' }]
          : []),
        ...(value === undefined
          ? []
          : [{ path, message: 'is a secret of the script: give it among the secrets' }]),
      ];
    }
    if (secretNames.includes(name)) {
      return [
        { path: `secrets.${name}`, message: 'is no secret of the script: give it among the parameters' },
      ];
    }
    if (value === undefined) return required ? [{ path, message: 'is required by the script' }] : [];
    return FITS[type](value) ? [] : [{ path, message: RULES[type] }];
  });
}

/** Refuses the values of a run in a body that are not what the script declares. */
export function assertValuesFit(declared: readonly ScriptParameter[], given: GivenValues): void {
  const faults = parameterFaults(declared, given);
  if (faults.length === 0) return;
  throw invalidFields(faults.map(({ path, message }) => ({ path: `body.${path}`, message })));
}

/** The parameters of a run, with the default values of those that are not given. */
export function withDefaults(
  declared: readonly ScriptParameter[],
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const defaults = declared.flatMap(({ name, type, defaultValue }) =>
    type === 'secret' || defaultValue === null ? [] : [[name, defaultValue] as const],
  );
  return { ...Object.fromEntries(defaults), ...withoutSecrets(declared, given) };
}
