import { ActionIcon, Button, Checkbox, Group, Stack, TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';

/** A value that a script finds in its environment. A secret one is not kept in the clear. */
export interface Variable {
  name: string;
  value: string;
  isSecret: boolean;
}

const NAME_MAX = 64;
const NAME = /^[A-Za-z_]\w*$/;
export const isName = (name: string): boolean => NAME.test(name) && name.length <= NAME_MAX;

/** The variables as the API takes them. */
export interface Given {
  parameters?: Record<string, string>;
  secrets?: Record<string, string>;
}

export const givenBy = (variables: readonly Variable[]): Given => ({
  ...named('parameters', variables, false),
  ...named('secrets', variables, true),
});

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
  hasSecrets = true,
}: {
  variables: readonly Variable[];
  /** Whether some may be secret. */
  hasSecrets?: boolean;
  onChange: (variables: readonly Variable[]) => void;
}) {
  const set = (place: number, next: Partial<Variable>) =>
    onChange(variables.map((each, at) => (at === place ? { ...each, ...next } : each)));
  return (
    <Stack gap={6} align="stretch">
      {variables.map(({ name, value, isSecret }, place) => (
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
          {hasSecrets && (
            <Checkbox
              mt={6}
              label="Secret"
              aria-label={`Parameter ${place + 1} is secret`}
              checked={isSecret}
              onChange={(event) => set(place, { isSecret: event.currentTarget.checked })}
            />
          )}
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
      ))}
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
