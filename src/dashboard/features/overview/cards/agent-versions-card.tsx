import { Group, Progress, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import type { DeviceSummary } from '../../../../protocol/index.ts';
import { formatCount } from '../../../ui/index.ts';
import { Card } from './card.tsx';

const SHOWN = 6;

export function AgentVersionsCard({ devices }: { devices: readonly DeviceSummary[] }) {
  const versions = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { agentVersion } of devices) counts.set(agentVersion, (counts.get(agentVersion) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  }, [devices]);
  return (
    <Card title="Versions of the agent">
      <Stack gap={6}>
        {versions.slice(0, SHOWN).map(([version, count]) => (
          <Group key={version} gap="xs" wrap="nowrap">
            <Text size="sm" w={90}>
              {version}
            </Text>
            <Progress
              flex={1}
              value={(count / devices.length) * 100}
              aria-label={`Share of devices with ${version}`}
            />
            <Text size="sm" w={60} ta="right">
              {formatCount(count)}
            </Text>
          </Group>
        ))}
        {versions.length > SHOWN && (
          <Text size="xs" c="dimmed">
            And {formatCount(versions.length - SHOWN)} other versions.
          </Text>
        )}
      </Stack>
    </Card>
  );
}
