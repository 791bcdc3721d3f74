import { Button, Fieldset, Group, MultiSelect, NumberInput, SimpleGrid, Stack, Text } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import type { NotificationPolicy } from '../../api/index.ts';
import { choicesOf } from '../../directory.ts';
import { Notice, TextLink } from '../../ui/index.ts';
import { useChannelsOf, usePeopleOf } from './recipients.ts';
import { nextStep, type StepForm } from './policy-form.ts';

const STEPS_MAX = 10;
const WEEK_MINUTES = 10_080;

/** Who is told, and who next if nobody acknowledges. */
export function StepsField({
  owner,
  known,
  steps,
  onChange,
  faults,
}: {
  owner: string;
  /** The recipients that the policy has, some of which the person may not see otherwise. */
  known: Pick<NotificationPolicy, 'channels' | 'users'> | undefined;
  steps: readonly StepForm[];
  onChange: (steps: StepForm[]) => void;
  faults: Readonly<Record<string, string>>;
}) {
  const channels = useChannelsOf(owner);
  const { people, refusal } = usePeopleOf(owner);
  const offered = {
    channels: withKnown(channels ?? [], known?.channels),
    people: withKnown(people ?? [], known?.users),
  };
  const change = (key: number, change: Partial<StepForm>) =>
    onChange(steps.map((step) => (step.key === key ? { ...step, ...change } : step)));
  return (
    <Stack gap="sm">
      {channels?.length === 0 && (
        <Notice tone="info">
          There is no channel to choose from yet. Make one under{' '}
          <TextLink inherit underline="always" to="/notifications/channels">
            Channels
          </TextLink>
          , or choose people, who are told by mail.
        </Notice>
      )}
      {steps.map(({ key, afterMinutes, channelIds, userIds }, place) => (
        <Fieldset key={key} legend={`Step ${place + 1}`}>
          <Stack gap="xs">
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <NumberInput
                label="After"
                description={place === 0 ? '0 is at once.' : 'If nobody acknowledges.'}
                suffix=" min"
                min={0}
                max={WEEK_MINUTES}
                allowDecimal={false}
                required
                value={afterMinutes}
                onChange={(minutes) => typeof minutes === 'number' && change(key, { afterMinutes: minutes })}
                error={faults[`steps.${place}.afterMinutes`]}
              />
              <MultiSelect
                label="Channels"
                description="Each gets a message."
                searchable
                data={offered.channels}
                value={channelIds}
                onChange={(ids) => change(key, { channelIds: ids })}
                error={faultOf(faults, `steps.${place}.channelIds`)}
              />
              <MultiSelect
                label="People"
                description="By mail, as their own settings say."
                searchable
                data={offered.people}
                value={userIds}
                onChange={(ids) => change(key, { userIds: ids })}
                error={faultOf(faults, `steps.${place}.userIds`)}
                {...(refusal === undefined ? {} : { nothingFoundMessage: refusal })}
              />
            </SimpleGrid>
            {steps.length > 1 && (
              <Group justify="flex-end">
                <Button
                  variant="subtle"
                  color="red"
                  size="compact-sm"
                  leftSection={<IconTrash size={14} aria-hidden />}
                  onClick={() => onChange(steps.filter((step) => step.key !== key))}
                >
                  Remove step {place + 1}
                </Button>
              </Group>
            )}
          </Stack>
        </Fieldset>
      ))}
      <Group gap="sm">
        <Button
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          disabled={steps.length >= STEPS_MAX}
          onClick={() => onChange([...steps, nextStep(steps)])}
        >
          Add a step
        </Button>
        {faults['steps'] !== undefined && (
          <Text size="sm" c="red">
            {faults['steps']}
          </Text>
        )}
      </Group>
    </Stack>
  );
}

interface Named {
  id: string;
  name: string;
}

const withKnown = (offered: readonly Named[], known: readonly Named[] = []) =>
  choicesOf([...offered, ...known.filter(({ id }) => !offered.some((each) => each.id === id))]);

/** The rule that the field, or one of its items, breaks. */
const faultOf = (faults: Readonly<Record<string, string>>, path: string): string | undefined =>
  faults[path] ?? Object.entries(faults).find(([each]) => each.startsWith(`${path}.`))?.[1];
