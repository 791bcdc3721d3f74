import { Grid, Group, Text, VisuallyHidden } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, useList, type NotificationPolicy } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe, useRefusal } from '../../session.ts';
import { Action, ConfirmAction, Failure, List, Notice, StateBadge, useAddress } from '../../ui/index.ts';
import { FirstPolicy } from './first-policy.tsx';
import { NotificationsFrame } from './notifications-frame.tsx';
import { useOwnerName, useSeesProvider } from '../owners/index.ts';
import { PolicyDialog } from './policy-dialog.tsx';
import { MovePolicy } from './move-policy.tsx';
import { policyText } from './policy-text.ts';
import { POLICY_READS } from './reads.ts';
import { Simulator } from './simulator.tsx';

const route = getRouteApi('/signed-in/notifications');
const LIMIT = '100';

/** Who is told about which alerts, in the order in which the policies are asked. */
export function PoliciesPage() {
  const address = useAddress(route.useSearch());
  const refusal = useRefusal('organizations:write');
  const policies = usePolicies(address.search.page ?? 1);
  const [opened, setOpened] = useState<NotificationPolicy | 'new'>();
  const [said, setSaid] = useState('');
  const rows = policies.data?.data ?? [];
  return (
    <NotificationsFrame
      title="Notification policies"
      description="Who is told about which alerts. The first policy that fits takes an alert: those of its organization, then those for all."
      actions={
        rows.length > 0 && (
          <Action refusal={refusal} icon={IconPlus} onClick={() => setOpened('new')}>
            New policy
          </Action>
        )
      }
    >
      <VisuallyHidden role="status">{said}</VisuallyHidden>
      <AllDisabled policies={rows} />
      <Grid>
        <Grid.Col span={{ base: 12, ...(rows.length > 0 ? { lg: 8 } : {}) }}>
          <Policies
            policies={policies}
            address={address}
            onChange={setOpened}
            onCreate={() => setOpened('new')}
            say={setSaid}
          />
        </Grid.Col>
        {rows.length > 0 && (
          <Grid.Col span={{ base: 12, lg: 4 }}>
            {/* After a change of a policy, the same alert may be taken by another one. */}
            <Simulator version={rows.map(({ id, updatedAt }) => `${id} ${updatedAt}`).join()} />
          </Grid.Col>
        )}
      </Grid>
      {opened !== undefined && (
        <PolicyDialog policy={opened === 'new' ? undefined : opened} onClose={() => setOpened(undefined)} />
      )}
    </NotificationsFrame>
  );
}

/** Those of the chosen organization and behind them those of its provider; without one, all that the person may see. */
function usePolicies(page: number) {
  const { scope } = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  const isNarrowed = orgId !== undefined && scope === 'partner';
  const own = useList('GET /notification-policies', { query: { orgId, page: String(page), limit: LIMIT } });
  const ofProvider = useQuery({
    ...apiQuery('GET /notification-policies', { query: { ofPartner: 'true', limit: LIMIT } }),
    enabled: isNarrowed,
  });
  if (!isNarrowed) return own;
  const partnerId = organizations.find(({ id }) => id === orgId)?.partnerId;
  const shared = ofProvider.data?.data.filter(
    (policy) => partnerId === undefined || policy.partnerId === partnerId,
  );
  return {
    data:
      own.data === undefined || shared === undefined ? undefined : { data: [...own.data.data, ...shared] },
    error: own.error ?? ofProvider.error,
    refetch: () => Promise.all([own.refetch(), ofProvider.refetch()]),
  };
}

type Read = ReturnType<typeof usePolicies>;

function Policies({
  policies,
  address,
  onChange,
  onCreate,
  say,
}: {
  policies: Read;
  address: ReturnType<typeof useAddress<{ page?: number | undefined }>>;
  onChange: (policy: NotificationPolicy) => void;
  onCreate: () => void;
  say: (text: string) => void;
}) {
  const refusal = useRefusal('organizations:write');
  const names = useNames();
  const ownerName = useOwnerName();
  const change = useApiChange('PATCH /notification-policies/{id}', { refreshes: POLICY_READS });
  const remove = useApiChange('DELETE /notification-policies/{id}', { refreshes: POLICY_READS });
  const rows = policies.data?.data ?? [];
  const isLast = (policy: NotificationPolicy) => {
    const next = rows[rows.findIndex(({ id }) => id === policy.id) + 1];
    return next === undefined || next.orgId !== policy.orgId || next.partnerId !== policy.partnerId;
  };
  return (
    <>
      {change.error !== null && <Failure error={change.error} />}
      <List
        query={policies}
        noun="policies"
        label="Notification policies"
        keyOf={({ id }) => id}
        address={address}
        empty={<FirstPolicy onCreate={onCreate} />}
        columns={[
          {
            header: 'Place',
            width: 90,
            cell: (policy) => (
              <MovePolicy policy={policy} isLast={isLast(policy)} refusal={refusal} say={say} />
            ),
          },
          {
            header: 'Policy',
            isName: true,
            cell: (policy) => (
              <>
                <Group gap={6}>
                  <Text size="sm" fw={600}>
                    {policy.name}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {ownerName(policy)}
                  </Text>
                </Group>
                <Text size="sm" fw={400} style={{ overflowWrap: 'anywhere' }}>
                  {policyText(policy, names)}
                </Text>
              </>
            ),
          },
          {
            header: 'State',
            width: 100,
            cell: ({ enabled }) =>
              enabled ? (
                <StateBadge tone="good" label="Enabled" />
              ) : (
                <StateBadge tone="neutral" label="Disabled" />
              ),
          },
          {
            header: 'Actions',
            align: 'right',
            width: 150,
            cell: (policy) => (
              <>
                <Action inRow refusal={refusal} onClick={() => onChange(policy)}>
                  Change
                </Action>
                <Action
                  inRow
                  refusal={refusal}
                  onClick={() =>
                    change.mutate({ params: { id: policy.id }, body: { enabled: !policy.enabled } })
                  }
                >
                  {policy.enabled ? 'Disable' : 'Enable'}
                </Action>
                <ConfirmAction
                  inRow
                  refusal={refusal}
                  title={`Delete “${policy.name}”`}
                  question="The policies behind it take its alerts, if they fit. Those who were told of open alerts are still told when these are resolved."
                  confirm="Delete"
                  run={() => remove.mutateAsync({ params: { id: policy.id } })}
                >
                  Delete
                </ConfirmAction>
              </>
            ),
          },
        ]}
      />
    </>
  );
}

/** A policy that is disabled tells nobody, which a list of sentences does not show at once. */
function AllDisabled({ policies }: { policies: readonly NotificationPolicy[] }) {
  const seesProvider = useSeesProvider();
  if (policies.length === 0 || policies.some(({ enabled }) => enabled)) return null;
  return (
    <Notice tone="warning" title="All of these policies are disabled">
      {seesProvider === true
        ? 'Nobody is told of alerts until one of them is enabled.'
        : 'They tell nobody of alerts until one of them is enabled. Your provider may have policies that you do not see.'}
    </Notice>
  );
}
