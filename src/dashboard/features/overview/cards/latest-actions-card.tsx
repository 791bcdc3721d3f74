import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { formatWord, Loaded, When } from '../../../ui/index.ts';
import { Card } from './card.tsx';

const REFRESH_MS = 30_000;

/** What people and programs did last, from the audit trail. */
export function LatestActionsCard() {
  const trail = useQuery({
    ...apiQuery('GET /audit-logs', { query: { limit: '6', skipCount: 'true' } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Card title="Latest actions" more={{ label: 'Audit', to: '/audit' }}>
      <Loaded query={trail} what="Reading the audit trail">
        {({ entries: latest }) => (
          <Stack gap={6}>
            {latest.length === 0 && (
              <Text size="sm" c="dimmed">
                Nobody has done anything yet.
              </Text>
            )}
            {latest.map((entry) => (
              <Group key={entry.id} gap="xs" wrap="nowrap">
                <Text size="sm" flex="3 1 0" truncate>
                  {entry.user.name ?? entry.user.email ?? 'Muster'}
                </Text>
                <Text size="sm" flex="3 1 0" truncate>
                  {formatWord(entry.action)}
                </Text>
                <Text size="sm" flex="5 1 0" c="dimmed" truncate>
                  {entry.resource}
                </Text>
                <Text size="xs" c="dimmed" w={90} ta="right">
                  <When at={entry.timestamp} />
                </Text>
              </Group>
            ))}
          </Stack>
        )}
      </Loaded>
    </Card>
  );
}
