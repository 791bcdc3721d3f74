import { Checkbox, Group, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { z } from 'zod';
import { apiQuery, useApiChange, type EffectiveAgentUpdates, type Organization } from '../../../api/index.ts';
import { FormDialog, formatWord } from '../../../ui/index.ts';

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
const POLICIES = ['auto', 'staged', 'manual'] as const;
const OVERRULED = 'The provider has set one, which holds for all its organizations.';
const INHERITED = 'inherited';
const FIRST_WINDOW = { days: [...DAYS], start: '22:00', end: '04:00' };

/** What the organization itself has set. The effective values also have what its provider sets. */
const Own = z
  .object({
    agentUpdates: z
      .object({
        pins: z.object({ agent: z.string().nullish(), watchdog: z.string().nullish() }).nullish(),
        policy: z.enum(POLICIES).nullish(),
        maintenanceWindow: z
          .object({ days: z.array(z.enum(DAYS)), start: z.string(), end: z.string() })
          .nullish(),
      })
      .nullish(),
  })
  .catch({});

/** Changes how the agents of an organization are upgraded. Its other settings stay. */
export function PolicyDialog({
  organization,
  effective: { policy, maintenanceWindow },
  onClose,
}: {
  organization: Organization;
  effective: EffectiveAgentUpdates;
  onClose: () => void;
}) {
  const [own] = useState(() => Own.parse(organization.settings).agentUpdates);
  const [agent, setAgent] = useState<string>(own?.pins?.agent ?? INHERITED);
  const [watchdog, setWatchdog] = useState<string>(own?.pins?.watchdog ?? INHERITED);
  const [rule, setRule] = useState<string>(own?.policy ?? INHERITED);
  const [window, setWindow] = useState(own?.maintenanceWindow ?? undefined);
  const pinnable = useQuery(apiQuery('GET /agent-versions/pinnable'));
  const patch = useApiChange('PATCH /orgs/organizations/{id}', {
    refreshes: ['GET /orgs/organizations/{id}/agent-updates', 'GET /orgs/organizations/{id}'],
  });
  const pinOf = (value: string) => (value === INHERITED ? null : value);
  const submit = () =>
    patch.mutateAsync({
      params: { id: organization.id },
      body: {
        settings: {
          ...organization.settings,
          agentUpdates: {
            pins: { agent: pinOf(agent), watchdog: pinOf(watchdog) },
            policy: POLICIES.find((one) => one === rule) ?? null,
            maintenanceWindow: window ?? null,
          },
        },
      },
    });
  const versions = (name: 'agent' | 'watchdog') => [
    { value: INHERITED, label: 'As its provider' },
    { value: 'latest', label: 'What is promoted' },
    ...(pinnable.data?.components[name].versions ?? []).map((version) => ({
      value: version,
      label: version,
    })),
  ];
  return (
    <FormDialog
      title={`How agents of ${organization.name} are upgraded`}
      opened
      onClose={onClose}
      submit={submit}
      submitLabel="Save"
    >
      {(faults) => (
        <>
          <Select
            label="Version of the agent"
            allowDeselect={false}
            searchable
            data={versions('agent')}
            value={agent}
            onChange={(value) => setAgent(value ?? INHERITED)}
            error={faults['settings.agentUpdates.pins.agent']}
          />
          <Select
            label="Version of the watchdog"
            allowDeselect={false}
            searchable
            data={versions('watchdog')}
            value={watchdog}
            onChange={(value) => setWatchdog(value ?? INHERITED)}
            error={faults['settings.agentUpdates.pins.watchdog']}
          />
          <Select
            label="Policy"
            {...(policy.level === 'partner' ? { description: OVERRULED } : {})}
            allowDeselect={false}
            data={[
              { value: INHERITED, label: 'Not set here' },
              { value: 'auto', label: 'At once' },
              { value: 'staged', label: 'When the wave of a rollout arrives' },
              { value: 'manual', label: 'Only when somebody asks for it' },
            ]}
            value={rule}
            onChange={(value) => setRule(value ?? INHERITED)}
            error={faults['settings.agentUpdates.policy']}
          />
          <Checkbox
            label="A window of its own"
            description={
              maintenanceWindow.level === 'partner'
                ? OVERRULED
                : 'Without it, upgrades may be installed at any time.'
            }
            checked={window !== undefined}
            onChange={(event) => setWindow(event.currentTarget.checked ? FIRST_WINDOW : undefined)}
          />
          {window !== undefined && (
            <>
              <Group gap="xs" role="group" aria-label="Days of the window">
                {DAYS.map((day) => (
                  <Checkbox
                    key={day}
                    label={formatWord(day)}
                    checked={window.days.includes(day)}
                    onChange={(event) =>
                      setWindow({
                        ...window,
                        days: DAYS.filter((each) =>
                          each === day ? event.currentTarget.checked : window.days.includes(each),
                        ),
                      })
                    }
                  />
                ))}
              </Group>
              <Group grow>
                <TextInput
                  type="time"
                  label="Opens (UTC)"
                  required
                  value={window.start}
                  onChange={(event) => setWindow({ ...window, start: event.currentTarget.value })}
                  error={faults['settings.agentUpdates.maintenanceWindow.start']}
                />
                <TextInput
                  type="time"
                  label="Closes (UTC)"
                  required
                  value={window.end}
                  onChange={(event) => setWindow({ ...window, end: event.currentTarget.value })}
                  error={
                    faults['settings.agentUpdates.maintenanceWindow.end'] ??
                    faults['settings.agentUpdates.maintenanceWindow.days']
                  }
                />
              </Group>
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}
