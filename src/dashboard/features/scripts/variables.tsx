import { ActionIcon, Button, Checkbox, Group, PasswordInput, Select, Stack, TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import type { Script } from '../../api/index.ts';

type Parameter = Script['parameters'][number];

/** A value that a script finds in its environment. A secret one is not kept in the clear. */
export interface Variable {
  name: string;
  value: string;
  isSecret: boolean;
  /** A secret that is set already, by the person who looks at it or by another one. It stays if its value is left empty. */
  held?: 'mine' | 'theirs' | undefined;
  /** What the script says of it. Absent for one that a person has added. */
  declared?: Parameter;
}

export const NAME_MAX = 64;
const NAME = /^[A-Za-z_]\w*$/;
export const isName = (name: string): boolean => NAME.test(name) && name.length <= NAME_MAX;

/** A secret that is set, without its value. */
export type HeldSecret = Pick<Variable, 'name'> & { held: NonNullable<Variable['held']> };

/** A field for each parameter that a script declares, and for each other value that is there. */
export function variablesOf(
  parameters: readonly Parameter[],
  given: Readonly<Record<string, string>> = {},
  secrets: readonly HeldSecret[] = [],
): Variable[] {
  const values = new Map(Object.entries(given));
  const held = new Map(secrets.map((secret) => [secret.name, secret.held]));
  const declared = parameters.map((parameter): Variable => {
    const { name, type } = parameter;
    return type === 'secret'
      ? { name, value: '', isSecret: true, held: held.get(name), declared: parameter }
      : { name, value: values.get(name) ?? '', isSecret: false, declared: parameter };
  });
  const isOther = (name: string, isSecret: boolean) =>
    declared.every((one) => one.name !== name || one.isSecret !== isSecret);
  return [
    ...declared,
    ...[...values]
      .filter(([name]) => isOther(name, false) && isOther(name, true))
      .map(([name, value]) => ({ name, value, isSecret: false })),
    ...secrets
      .filter(({ name }) => isOther(name, true))
      .map((secret) => ({ ...secret, value: '', isSecret: true })),
  ];
}

/** Why the values cannot be sent; undefined if they can. */
export function unfit(variables: readonly Variable[]): string | undefined {
  if (!variables.every(({ name }) => isName(name))) return 'Correct the names of the parameters first.';
  const missing = variables.find(
    ({ declared, value, held }) => declared?.required === true && value === '' && held === undefined,
  );
  return missing === undefined ? undefined : `Give ${missing.name} a value first.`;
}

/** The variables as the API takes them. */
export interface Given {
  parameters?: Record<string, string>;
  secrets?: Record<string, string>;
}

/** A declared parameter that is left empty is left out, so that it gets its default value. A secret that is set stays. */
export function givenBy(variables: readonly Variable[]): Given {
  const filled = variables.filter(
    ({ declared, held, value }) => (declared === undefined && held === undefined) || value !== '',
  );
  return { ...named('parameters', filled, false), ...named('secrets', filled, true) };
}

function named(field: keyof Given, variables: readonly Variable[], isSecret: boolean): Given {
  const some = variables.filter((each) => each.isSecret === isSecret);
  return some.length === 0
    ? {}
    : { [field]: Object.fromEntries(some.map(({ name, value }) => [name, value])) };
}

/** The environment variables of the script. */
export function Variables({
  variables,
  onChange,
  faults = {},
}: {
  variables: readonly Variable[];
  onChange: (variables: readonly Variable[]) => void;
  /** The rules that values break, by the path of the field. */
  faults?: Readonly<Record<string, string>>;
}) {
  const set = (place: number, next: Partial<Variable>) =>
    onChange(variables.map((each, at) => (at === place ? { ...each, ...next } : each)));
  return (
    <Stack gap={6} align="stretch">
      {variables.map(({ name, value, isSecret, held, declared }, place) =>
        held !== undefined ? (
          <HeldField
            key={`held ${name}`}
            name={name}
            description={declared?.description ?? ''}
            held={held}
            value={value}
            error={faults[`secrets.${name}`]}
            onChange={(next) => set(place, { value: next })}
            onRemove={() =>
              declared === undefined
                ? onChange(variables.filter((_, at) => at !== place))
                : set(place, { held: undefined, value: '' })
            }
          />
        ) : declared !== undefined ? (
          <DeclaredField
            key={`declared ${name}`}
            parameter={declared}
            value={value}
            error={faults[`${isSecret ? 'secrets' : 'parameters'}.${name}`]}
            onChange={(next) => set(place, { value: next })}
          />
        ) : (
          // Variables have no name of their own until one is typed.
          // oxlint-disable-next-line react/no-array-index-key
          <Group key={place} gap={6} wrap="nowrap" align="flex-start">
            <TextInput
              aria-label={`Name of parameter ${place + 1}`}
              placeholder="Name"
              required
              maxLength={NAME_MAX}
              value={name}
              error={name === '' || isName(name) ? undefined : 'Letters, digits and underscores'}
              onChange={(event) => set(place, { name: event.currentTarget.value })}
            />
            <TextInput
              flex={1}
              aria-label={`Value of parameter ${place + 1}`}
              placeholder={`${isSecret ? 'SECRET' : 'PARAM'}_${name === '' ? 'name' : name}`}
              type={isSecret ? 'password' : 'text'}
              autoComplete="off"
              value={value}
              onChange={(event) => set(place, { value: event.currentTarget.value })}
            />
            <Checkbox
              mt={6}
              label="Secret"
              aria-label={`Parameter ${place + 1} is secret`}
              checked={isSecret}
              onChange={(event) => set(place, { isSecret: event.currentTarget.checked })}
            />
            <ActionIcon
              mt={2}
              variant="subtle"
              color="gray"
              aria-label={`Remove parameter ${place + 1}`}
              onClick={() => onChange(variables.filter((_, at) => at !== place))}
            >
              <IconX size={14} />
            </ActionIcon>
          </Group>
        ),
      )}
      <Group>
        <Button
          variant="subtle"
          size="compact-xs"
          leftSection={<IconPlus size={12} aria-hidden />}
          onClick={() => onChange([...variables, { name: '', value: '', isSecret: false }])}
        >
          Add a parameter
        </Button>
      </Group>
    </Stack>
  );
}

/** A secret that is set. Nobody is shown its value. */
function HeldField({
  name,
  description,
  held,
  value,
  error,
  onChange,
  onRemove,
}: {
  name: string;
  description: string;
  held: NonNullable<Variable['held']>;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
  onRemove: () => void;
}) {
  const state = held === 'mine' ? 'Set by you.' : 'Set by another person.';
  return (
    <Group gap={6} wrap="nowrap" align="flex-end">
      <PasswordInput
        flex={1}
        label={name}
        description={`${description} ${state} Leave it empty to keep it.`.trim()}
        autoComplete="off"
        value={value}
        error={error}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      <ActionIcon
        mb={4}
        variant="subtle"
        color="gray"
        aria-label={`Remove the secret ${name}`}
        onClick={onRemove}
      >
        <IconX size={14} />
      </ActionIcon>
    </Group>
  );
}

/** A parameter that the script declares. */
function DeclaredField({
  parameter: { name, type, description, required, defaultValue },
  value,
  error,
  onChange,
}: {
  parameter: Parameter;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}) {
  const shared = { label: name, description, required, error };
  const placeholder = defaultValue ?? '';
  switch (type) {
    case 'boolean':
      return (
        <Select
          {...shared}
          data={['true', 'false']}
          placeholder={placeholder}
          clearable={!required}
          clearButtonProps={{ 'aria-label': `No value for ${name}` }}
          value={value === '' ? null : value}
          onChange={(next) => onChange(next ?? '')}
        />
      );
    case 'secret':
      return (
        <PasswordInput
          {...shared}
          autoComplete="off"
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    case 'number':
    case 'text':
      return (
        <TextInput
          {...shared}
          placeholder={placeholder}
          {...(type === 'number' ? { inputMode: 'decimal' } : {})}
          autoComplete="off"
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    default:
      return type satisfies never;
  }
}
