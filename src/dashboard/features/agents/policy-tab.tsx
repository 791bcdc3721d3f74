import { Group, Select, Stack, Text, Checkbox, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { z } from 'zod';
import { apiQuery, type EffectiveAgentUpdates, useApiChange, type Organization } from '../../api/index.ts';
import { useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe, useRefusal } from '../../session.ts';
import { Action, Empty, formatWord, Loaded, PagedTable, FormDialog } from '../../ui/index.ts';

const POLICIES = {
  auto: 'Upgrades to what is promoted, at once',
  staged: 'Upgrades when the wave of a rollout arrives',
  manual: 'Upgrades only on request',
};

/** How the agents of one organization are upgraded, and where that was set. */
export function PolicyTab() {
  const me = useMe();
  const { orgId: chosen } = useScope();
  const organizations = useOrganizations();
  const navigate = useNavigate();
  const orgId = chosen ?? me.orgId ?? (organizations.length === 1 ? organizations[0]?.id : undefined);
  return (
    <Stack gap="sm">
      {me.scope !== 'organization' && (
        <Select
          label="Organization"
          w={280}
          searchable
          data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
          value={orgId ?? null}
          onChange={(value) =>
            void navigate({ to: '/agents', search: { tab: 'policy', org: value ?? undefined } })
          }
        />
      )}
      {orgId === undefined ? (
        <Empty title="Choose an organization">Pins, policy and windows are set for each one.</Empty>
      ) : (
        <Policy key={orgId} orgId={orgId} />
      )}
    </Stack>
  );
}

function Policy({ orgId }: { orgId: string }) {
  const refusal = useRefusal({ permission: 'organizations:write', scopes: ['partner', 'system'] });
  const [isOpen, { open, close }] = useDisclosure(false);
  const updates = useQuery(apiQuery('GET /orgs/organizations/{id}/agent-updates', { params: { id: orgId } }));
  const organization = useQuery(apiQuery('GET /orgs/organizations/{id}', { params: { id: orgId } }));
  return (
    <Loaded query={updates} what="Reading the policy">
      {(effective) => (
        <>
          <PagedTable
            label="How agents are upgraded"
            rows={rowsOf(effective)}
            keyOf={({ name }) => name}
            columns={[
              { header: 'Setting', isName: true, cell: ({ name }) => name },
              { header: 'Value', cell: ({ value }) => value },
              { header: 'Set by', cell: ({ level }) => LEVELS[level] },
            ]}
          />
          <Text size="sm">
            A pin of the organization overrides the one of its provider. The tab “Upgrades” of a device says
            why it does not run what it should.
          </Text>
          <Group>
            <Action
              variant="default"
              refusal={refusal ?? (organization.data === undefined ? 'It is being read.' : undefined)}
              onClick={open}
            >
              Change
            </Action>
          </Group>
          {isOpen && organization.data !== undefined && (
            <PolicyDialog organization={organization.data} effective={effective} onClose={close} />
          )}
        </>
      )}
    </Loaded>
  );
}

const LEVELS = { organization: 'The organization', partner: 'Its provider', default: 'Not set: the default' };

function rowsOf({ pins, policy, maintenanceWindow }: EffectiveAgentUpdates) {
  const window = maintenanceWindow.value;
  return [
    { name: 'Version of the agent', value: versionText(pins.agent.value), level: pins.agent.level },
    { name: 'Version of the watchdog', value: versionText(pins.watchdog.value), level: pins.watchdog.level },
    { name: 'Policy', value: POLICIES[policy.value], level: policy.level },
    {
      name: 'Window',
      value:
        window === null
          ? 'At any time'
          : `${window.days.map(formatWord).join(', ')}, ${window.start} to ${window.end} (UTC)`,
      level: maintenanceWindow.level,
    },
  ];
}

const versionText = (pin: string): string => (pin === 'latest' ? 'What is promoted' : `Pinned to ${pin}`);

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
const CHOICES = ['auto', 'staged', 'manual'] as const;
const OVERRULED = 'The provider has set one, which holds for all its organizations.';
const INHERITED = 'inherited';
const FIRST_WINDOW = { days: [...DAYS], start: '22:00', end: '04:00' };

/** The settings of the organization itself. The effective values also contain those of its provider. */
const Own = z
  .object({
    agentUpdates: z
      .object({
        pins: z.object({ agent: z.string().nullish(), watchdog: z.string().nullish() }).nullish(),
        policy: z.enum(CHOICES).nullish(),
        maintenanceWindow: z
          .object({ days: z.array(z.enum(DAYS)), start: z.string(), end: z.string() })
          .nullish(),
      })
      .nullish(),
  })
  .catch({});

/** Changes how the agents of an organization are upgraded. Its other settings stay. */
function PolicyDialog({
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
            policy: CHOICES.find((one) => one === rule) ?? null,
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
              { value: 'manual', label: 'Only on request' },
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
