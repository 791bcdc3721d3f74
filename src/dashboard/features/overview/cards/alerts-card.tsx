import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Loaded, When } from '../../../ui/index.ts';
import { AlertSubject, SeverityBadge } from '../../alerts/index.ts';
import { Card } from './card.tsx';

const REFRESH_MS = 30_000;

export function AlertsCard() {
  const { orgId } = scopeQuery(useScope());
  const alerts = useQuery({
    ...apiQuery('GET /alerts', { query: { status: 'active', limit: '6', orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Card title="Active alerts" more={{ label: 'All alerts', to: '/alerts' }}>
      <Loaded query={alerts} what="Reading alerts">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm" c="dimmed">
              Nothing needs attention.
            </Text>
          ) : (
            <Stack gap={6}>
              {data.map((alert) => (
                <Group key={alert.id} gap="xs" wrap="nowrap">
                  <SeverityBadge severity={alert.severity} />
                  <Text size="sm" truncate flex={1}>
                    <AlertSubject alert={alert} />
                  </Text>
                  <Text size="xs" c="dimmed">
                    <When at={alert.lastAt} />
                  </Text>
                </Group>
              ))}
            </Stack>
          )
        }
      </Loaded>
    </Card>
  );
}
