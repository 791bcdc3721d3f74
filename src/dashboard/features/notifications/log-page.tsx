import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, useList } from '../../api/index.ts';
import { choicesOf, useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import {
  ChipChoice,
  endsOfDay,
  formatCounted,
  ListPage,
  TextLink,
  TwoLines,
  useAddress,
  When,
} from '../../ui/index.ts';
import {
  NOTIFICATION_REASONS,
  NOTIFICATION_STATES,
  NotificationState,
  SeverityBadge,
} from '../alerts/index.ts';
import { NotificationsFrame } from './notifications-frame.tsx';

const route = getRouteApi('/signed-in/notifications/log');
const REFRESH_MS = 15_000;
const STATES = ['pending', 'sent', 'failed', 'suppressed'] as const;

/** What was sent about alerts, to whom, and why not. */
export function LogPage() {
  const address = useAddress(route.useSearch());
  const { status, channel, from, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const channels = useQuery(apiQuery('GET /notification-channels', { query: { limit: '100' } }));
  const notifications = useList(
    'GET /notifications',
    {
      query: {
        status: status?.join(','),
        channelId: channel,
        from: endsOfDay(from).begin,
        page: String(page),
        orgId,
      },
    },
    REFRESH_MS,
  );
  return (
    <ListPage
      frame={NotificationsFrame}
      title="Notification log"
      description="What was sent about alerts, to whom, and why not. It is kept as long as alerts are."
      query={notifications}
      noun="messages"
      label="Messages"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        {
          kind: 'own',
          name: 'status',
          control: (
            <ChipChoice
              label="State"
              values={STATES}
              nameOf={(state) => NOTIFICATION_STATES[state].label}
              chosen={status ?? []}
              onChange={(chosen) => address.narrow({ status: chosen.length === 0 ? undefined : chosen })}
            />
          ),
        },
        {
          kind: 'choice',
          name: 'channel',
          label: 'Channel',
          any: 'Any recipient',
          width: 220,
          isSearchable: true,
          options: choicesOf(channels.data?.data ?? []),
        },
        { kind: 'day', name: 'from', label: 'Since', shown: 'Since' },
      ]}
      empty={{
        title: 'Nothing was sent yet',
        text: 'Here stands each message about an alert, and each test of a channel of an organization.',
      }}
      columns={[
        {
          header: 'Message',
          isName: true,
          cell: ({ title, reason, alertId, alertCount }) => (
            <TwoLines
              below={`${NOTIFICATION_REASONS[reason]}${alertCount > 1 ? `, about ${formatCounted(alertCount, 'alert')}` : ''}`}
            >
              {alertId === null ? (
                title
              ) : (
                <TextLink inherit to="/alerts" search={{ alert: alertId }}>
                  {title}
                </TextLink>
              )}
            </TwoLines>
          ),
        },
        { header: 'Severity', width: 110, cell: ({ severity }) => <SeverityBadge severity={severity} /> },
        {
          header: 'To',
          cell: ({ recipient, channelId, step }) => (
            <TwoLines
              below={`${channelId === null ? 'By mail' : 'Channel'}${step === null ? '' : `, step ${step}`}`}
            >
              {recipient}
            </TwoLines>
          ),
        },
        { header: 'Organization', cell: (row) => names.organization(row.orgId) },
        {
          header: 'State',
          cell: ({ status: state, error, attempts }) => (
            <>
              <NotificationState status={state} />
              {error !== null && (
                <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                  {error}
                </Text>
              )}
              {attempts > 1 && (
                <Text size="xs" c="dimmed">
                  {formatCounted(attempts, 'attempt')}
                </Text>
              )}
            </>
          ),
        },
        { header: 'When', width: 120, cell: ({ sentAt, createdAt }) => <When at={sentAt ?? createdAt} /> },
      ]}
    />
  );
}
