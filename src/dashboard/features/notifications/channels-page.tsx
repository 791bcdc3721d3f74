import { Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import {
  useApiChange,
  useList,
  type NotificationChannel,
  type NotificationChannelTest,
} from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  ListPage,
  Notice,
  StateBadge,
  type Tone,
  TwoLines,
  useAddress,
  When,
} from '../../ui/index.ts';
import { ChannelDialog } from './channel-dialog.tsx';
import { CHANNEL_TYPES, channelAddress } from './channel-types.ts';
import { NotificationsFrame } from './notifications-frame.tsx';
import { useOwnerName } from '../owners/index.ts';
import { CHANNEL_READS } from './reads.ts';

const route = getRouteApi('/signed-in/notifications/channels');
const REFRESH_MS = 15_000;

type Outcome = { name: string } & ({ test: NotificationChannelTest } | { error: Error });

/** Ways in which alerts reach people. */
export function ChannelsPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = scopeQuery(useScope());
  const refusal = useRefusal('organizations:write');
  const ownerName = useOwnerName();
  const [opened, setOpened] = useState<NotificationChannel | 'new'>();
  const [outcome, setOutcome] = useState<Outcome>();
  const channels = useList(
    'GET /notification-channels',
    { query: { orgId, page: String(address.search.page ?? 1) } },
    REFRESH_MS,
  );
  const test = useApiChange('POST /notification-channels/{id}/test', { refreshes: CHANNEL_READS });
  const remove = useApiChange('DELETE /notification-channels/{id}', { refreshes: CHANNEL_READS });
  const sendTest = ({ id, name }: NotificationChannel) => {
    setOutcome(undefined);
    test.mutate(
      { params: { id } },
      {
        onSuccess: (answer) => setOutcome({ name, test: answer }),
        onError: (error) => setOutcome({ name, error }),
      },
    );
  };
  const add = (
    <Action refusal={refusal} icon={IconPlus} onClick={() => setOpened('new')}>
      New channel
    </Action>
  );
  return (
    <ListPage
      frame={NotificationsFrame}
      title="Notification channels"
      description="Ways in which alerts reach people. Policies say which alerts go where."
      actions={add}
      notice={
        outcome !== undefined && <TestOutcome outcome={outcome} onClose={() => setOutcome(undefined)} />
      }
      query={channels}
      noun="channels"
      label="Notification channels"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No channels yet',
        text: 'A channel is a mail address, a channel of Slack, Teams or Discord, a service of PagerDuty, a topic of ntfy, or a program of yours.',
        action: add,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: (channel) => <TwoLines below={channelAddress(channel)}>{channel.name}</TwoLines>,
        },
        { header: 'Type', width: 140, cell: ({ type }) => CHANNEL_TYPES[type].label },
        { header: 'For', cell: ownerName },
        { header: 'State', cell: (channel) => <ChannelState channel={channel} /> },
        { header: 'Last success', width: 120, cell: ({ lastSuccessAt }) => <When at={lastSuccessAt} /> },
        {
          header: 'Actions',
          align: 'right',
          width: 260,
          cell: (channel) => (
            <>
              <Action
                inRow
                refusal={refusal}
                loading={test.isPending && test.variables.params.id === channel.id}
                onClick={() => sendTest(channel)}
              >
                Send a test
              </Action>
              <Action inRow refusal={refusal} onClick={() => setOpened(channel)}>
                Change
              </Action>
              <ConfirmAction
                inRow
                refusal={refusal}
                title={`Delete “${channel.name}”`}
                question="Nothing is sent to it any more. What was sent stays in the log. A channel that a policy uses cannot be deleted."
                confirm="Delete"
                run={() => remove.mutateAsync({ params: { id: channel.id } })}
              >
                Delete
              </ConfirmAction>
            </>
          ),
        },
      ]}
    >
      {opened !== undefined && (
        <ChannelDialog channel={opened === 'new' ? undefined : opened} onClose={() => setOpened(undefined)} />
      )}
    </ListPage>
  );
}

const STATES: Record<NotificationChannel['status'], { tone: Tone; label: string }> = {
  ok: { tone: 'good', label: 'Works' },
  failing: { tone: 'bad', label: 'Failing' },
  untested: { tone: 'neutral', label: 'Nothing sent yet' },
};

function ChannelState({ channel }: { channel: NotificationChannel }) {
  const { status, lastError, failingSince, pausedUntil } = channel;
  return (
    <>
      <StateBadge {...STATES[status]} />
      {failingSince !== null && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          Since <When at={failingSince} />
          {lastError !== null && `: ${lastError}`}
        </Text>
      )}
      {pausedUntil !== null && (
        <Text size="xs" c="dimmed">
          The receiver asked to wait; sent again <When at={pausedUntil} />
        </Text>
      )}
    </>
  );
}

function TestOutcome({ outcome, onClose }: { outcome: Outcome; onClose: () => void }) {
  const { name } = outcome;
  if ('error' in outcome) {
    return (
      <Notice tone="bad" role="alert" title={`The test of “${name}” was not sent`} onClose={onClose}>
        {outcome.error.message}
      </Notice>
    );
  }
  const { ok, responseStatus, durationMs, error } = outcome.test;
  return (
    <Notice
      tone={ok ? 'good' : 'bad'}
      role="status"
      title={ok ? `“${name}” took the test message` : `The test of “${name}” failed`}
      onClose={onClose}
    >
      {error ??
        (responseStatus === null
          ? `The mail server took it after ${durationMs} ms.`
          : `It answered ${responseStatus} after ${durationMs} ms.`)}
    </Notice>
  );
}
