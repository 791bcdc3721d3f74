import { ActionIcon, Button, Checkbox, Fieldset, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import type { Script } from '../../api/index.ts';
import { focusOnArrival } from '../../ui/index.ts';
import { isName, NAME_MAX } from './variables.tsx';

type Parameter = Script['parameters'][number];

const PARAMETERS_MAX = 30;

export const NEW_PARAMETER: Parameter = {
  name: '',
  type: 'text',
  description: null,
  required: false,
  defaultValue: null,
};

const TYPES = [
  { value: 'text', label: 'Text' },
  { value: 'number', label: 'Number' },
  { value: 'boolean', label: 'True or false' },
  { value: 'secret', label: 'Secret' },
] as const satisfies readonly { value: Parameter['type']; label: string }[];

/** What a script expects of its runs. */
export function ParameterFields({
  parameters,
  onChange,
  faults,
}: {
  parameters: readonly Parameter[];
  onChange: (parameters: Parameter[]) => void;
  /** The rules that values break, by the path of the field. */
  faults: Readonly<Record<string, string>>;
}) {
  const set = (place: number, next: Partial<Parameter>) =>
    onChange(parameters.map((each, at) => (at === place ? { ...each, ...next } : each)));
  return (
    <Fieldset legend="Parameters" p="xs">
      <Stack gap={6}>
        <Text size="xs">
          Whoever runs the script is asked for these. A run that leaves one out gets its default value.
        </Text>
        {parameters.map(({ name, type, description, required, defaultValue }, place) => {
          const said = name === '' ? `parameter ${place + 1}` : name;
          const hasDefault = type !== 'secret' && !required;
          return (
            // Parameters have no name of their own until one is typed.
            // oxlint-disable-next-line react/no-array-index-key
            <Group key={place} gap={6} align="flex-start">
              <TextInput
                ref={name === '' ? focusOnArrival : undefined}
                w={150}
                aria-label={`Name of parameter ${place + 1}`}
                placeholder="Name"
                required
                maxLength={NAME_MAX}
                value={name}
                error={
                  faults[`parameters.${place}.name`] ??
                  (name === '' || isName(name) ? undefined : 'Letters, digits and underscores')
                }
                onChange={(event) => set(place, { name: event.currentTarget.value })}
              />
              <Select
                w={130}
                aria-label={`Type of ${said}`}
                data={TYPES}
                allowDeselect={false}
                value={type}
                onChange={(next) => {
                  const chosen = TYPES.find(({ value }) => value === next)?.value;
                  if (chosen !== undefined) set(place, { type: chosen, defaultValue: null });
                }}
              />
              <TextInput
                w={160}
                aria-label={`Default value of ${said}`}
                placeholder={hasDefault ? 'Default value' : 'No default value'}
                disabled={!hasDefault}
                maxLength={4000}
                value={defaultValue ?? ''}
                error={faults[`parameters.${place}.defaultValue`]}
                onChange={({ currentTarget: { value } }) =>
                  set(place, { defaultValue: value === '' ? null : value })
                }
              />
              <TextInput
                flex={1}
                miw={160}
                aria-label={`Description of ${said}`}
                placeholder="Description"
                maxLength={200}
                value={description ?? ''}
                onChange={({ currentTarget: { value } }) =>
                  set(place, { description: value === '' ? null : value })
                }
              />
              <Checkbox
                mt={6}
                label="Required"
                aria-label={`${said} is required`}
                checked={required}
                onChange={({ currentTarget: { checked } }) =>
                  set(place, { required: checked, ...(checked ? { defaultValue: null } : {}) })
                }
              />
              <ActionIcon
                mt={2}
                variant="subtle"
                color="gray"
                aria-label={`Remove ${said}`}
                onClick={() => onChange(parameters.filter((_, at) => at !== place))}
              >
                <IconX size={14} />
              </ActionIcon>
            </Group>
          );
        })}
        {parameters.length < PARAMETERS_MAX && (
          <Group>
            <Button
              variant="subtle"
              size="compact-xs"
              leftSection={<IconPlus size={12} aria-hidden />}
              onClick={() => onChange([...parameters, NEW_PARAMETER])}
            >
              Declare a parameter
            </Button>
          </Group>
        )}
      </Stack>
    </Fieldset>
  );
}
