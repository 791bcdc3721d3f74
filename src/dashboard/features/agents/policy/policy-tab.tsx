import { Group, Select, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { apiQuery, type EffectiveAgentUpdates } from '../../../api/index.ts';
import { useOrganizations } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useMe, useRefusal } from '../../../session/index.ts';
import { Action, Empty, formatWord, Loaded, PagedTable } from '../../../ui/index.ts';
import { PolicyDialog } from './policy-dialog.tsx';

const POLICIES = {
  auto: 'Upgrades to what is promoted, at once',
  staged: 'Upgrades when the wave of a rollout arrives',
  manual: 'Upgrades only when somebody asks for it',
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

const LEVELS = { organization: 'The organization', partner: 'Its provider', default: 'Nobody: the usual' };

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
