import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { formatWord, Loaded, When } from '../../../ui/index.ts';
import { Card } from './card.tsx';

const REFRESH_MS = 30_000;

export function LatestActionsCard() {
  const trail = useQuery({
    ...apiQuery('GET /audit-logs', { query: { limit: '6', skipCount: 'true' } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Card title="Latest actions of people">
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
                <Text size="sm" w={150} truncate>
                  {entry.user.name ?? entry.user.email ?? 'Muster'}
                </Text>
                <Text size="sm" flex={1} truncate>
                  {formatWord(entry.action)}
                </Text>
                <Text size="xs" c="dimmed">
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
