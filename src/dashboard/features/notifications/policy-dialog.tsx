import { NumberInput, Select, SimpleGrid, Stack, TagsInput, Text, Title } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type NotificationPolicy } from '../../api/index.ts';
import { choicesOf, useOrganizations, useSites } from '../../directory.ts';
import { FormDialog, useForm } from '../../ui/index.ts';
import { ALERT_KINDS, wordsOfKind } from '../alert-words/index.ts';
import { HoursField } from './hours-field.tsx';
import { OF_PROVIDER, ownerBody, useFirstOwner, useOwnerChoice } from '../owners/index.ts';
import { policyBody, policyFormOf, stepFormsOf, type PolicyForm, type StepForm } from './policy-form.ts';
import { asBeginning, everyText } from './policy-text.ts';
import { POLICY_READS } from './reads.ts';
import { SeveritiesField } from './severities-field.tsx';
import { StepsField } from './steps-field.tsx';

const OFFICE_HOURS = { days: [1, 2, 3, 4, 5], from: '08:00', to: '18:00' };
const KINDS = ALERT_KINDS.map(wordsOfKind);

/** Creates a policy, or changes one: which alerts it takes, and whom it tells when. */
export function PolicyDialog({
  policy,
  onClose,
}: {
  policy: NotificationPolicy | undefined;
  onClose: () => void;
}) {
  const firstOwner = useFirstOwner();
  const ownerChoice = useOwnerChoice();
  const organizations = useOrganizations();
  const form = useForm<PolicyForm>(() => policyFormOf(policy));
  const [chosen, setChosen] = useState<ChosenSteps>(() => ({ owner: undefined, steps: stepFormsOf(policy) }));
  const { values, set } = form;
  const owner = policy === undefined ? (values.owner ?? firstOwner) : (policy.orgId ?? OF_PROVIDER);
  const isOfProvider = owner === OF_PROVIDER;
  // Another owner has other recipients.
  const steps =
    chosen.owner === undefined || chosen.owner === owner ? chosen.steps : chosen.steps.map(withoutRecipients);
  const sites = useSites(isOfProvider ? undefined : owner);
  const create = useApiChange('POST /notification-policies', { refreshes: POLICY_READS });
  const change = useApiChange('PATCH /notification-policies/{id}', { refreshes: POLICY_READS });
  const submit = () => {
    const body = policyBody(values, steps, isOfProvider);
    return policy === undefined
      ? create.mutateAsync({ body: { ...ownerBody(owner), ...body } })
      : change.mutateAsync({ params: { id: policy.id }, body });
  };
  return (
    <FormDialog
      size="xl"
      title={policy === undefined ? 'New policy' : `Change “${policy.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={policy === undefined ? 'Create policy' : 'Save'}
      form={form}
      fields={[
        [
          { name: 'name', label: 'Name', required: true, maxLength: 200 },
          policy === undefined &&
            ownerChoice && {
              ...ownerChoice,
              shown: owner,
              empty: undefined,
              resets: { orgIds: [], siteIds: [] },
            },
        ],
        {
          note: 'match',
          text: <Part title="Which alerts">An alert has to fit all that is chosen here.</Part>,
        },
        {
          name: 'severities',
          fault: 'match.severities',
          control: (field) => (
            <SeveritiesField
              {...field}
              label="Severities"
              description="None chosen: alerts of every severity."
            />
          ),
        },
        [
          {
            name: 'kinds',
            fault: 'match.kinds',
            control: ({ value, onChange, error }) => (
              <TagsInput
                label="Kinds"
                placeholder={value.length === 0 ? 'Every kind' : ''}
                data={KINDS}
                value={value}
                onChange={onChange}
                error={error}
              />
            ),
          },
          isOfProvider && {
            name: 'orgIds',
            fault: 'match.orgIds',
            kind: 'choices',
            label: 'Organizations',
            placeholder: values.orgIds.length === 0 ? 'All of them' : '',
            options: choicesOf(organizations),
          },
          {
            name: 'siteIds',
            fault: 'match.siteIds',
            kind: 'choices',
            label: 'Sites',
            placeholder: values.siteIds.length === 0 ? 'All of them' : '',
            options: choicesOf(sites),
          },
        ],
        {
          name: 'hours',
          fault: 'match.hours',
          control: (field) => (
            <HoursField
              {...field}
              label="Only at certain hours"
              description="Off: alerts of every hour. Otherwise only those that are raised at these hours."
              first={OFFICE_HOURS}
            />
          ),
        },
        [
          {
            name: 'groupBy',
            kind: 'choice',
            label: 'Told together',
            description: 'As one message and one conversation.',
            options: GROUPINGS,
          },
          values.groupBy !== 'none' && {
            name: 'groupSeconds',
            kind: 'number',
            label: 'The first message waits',
            description: 'For more alerts of the same group.',
            suffix: ' s',
            min: 0,
            max: 3600,
            required: true,
          },
        ],
      ]}
    >
      {(faults) => (
        <>
          <Part title="Who is told">Each step comes if nobody has acknowledged or resolved by then.</Part>
          <StepsField
            owner={owner}
            known={policy}
            steps={steps}
            onChange={(next) => setChosen({ owner, steps: next })}
            faults={faults}
          />
          <Part title="How long">After the last step, everybody can be told again.</Part>
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <NumberInput
              label="Again every"
              description={
                values.repeatEveryMinutes === null
                  ? 'Empty: everybody is told once.'
                  : `${asBeginning(everyText(values.repeatEveryMinutes))}. Empty: everybody is told once.`
              }
              suffix=" min"
              min={5}
              max={10_080}
              allowDecimal={false}
              value={values.repeatEveryMinutes ?? ''}
              onChange={(minutes) =>
                set({ repeatEveryMinutes: typeof minutes === 'number' ? minutes : null })
              }
              error={faults['repeatEveryMinutes']}
            />
            <Select
              label="Until"
              description="What ends steps and repetitions."
              allowDeselect={false}
              data={ENDS}
              value={values.until}
              onChange={(until) => set({ until: until === 'resolved' ? 'resolved' : 'acknowledged' })}
              error={faults['until']}
            />
          </SimpleGrid>
        </>
      )}
    </FormDialog>
  );
}

interface ChosenSteps {
  /** For whom they were chosen. */
  owner: string | undefined;
  steps: readonly StepForm[];
}

const withoutRecipients = (step: StepForm): StepForm => ({ ...step, channelIds: [], userIds: [] });

const GROUPINGS = [
  { value: 'none', label: 'Each alert by itself' },
  { value: 'device', label: 'Alerts of the same device' },
  { value: 'site', label: 'Alerts of the same site' },
  { value: 'rule', label: 'Alerts of the same kind' },
] as const;

const ENDS = [
  { value: 'acknowledged', label: 'Somebody acknowledges or resolves the alert' },
  { value: 'resolved', label: 'The alert is resolved' },
];

function Part({ title, children }: { title: string; children: string }) {
  return (
    <Stack gap={0} mt="xs">
      <Title order={3} size="h5">
        {title}
      </Title>
      <Text size="xs" c="dimmed">
        {children}
      </Text>
    </Stack>
  );
}
