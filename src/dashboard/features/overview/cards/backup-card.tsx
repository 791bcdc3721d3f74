import { Group, Progress, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { formatBytes, formatCount, formatCounted, Loaded } from '../../../ui/index.ts';
import { Card } from './card.tsx';

const REFRESH_MS = 60_000;

/** A device counts as protected when a snapshot of it was verified, not when a backup was started. */
export function BackupCard() {
  const { orgId } = scopeQuery(useScope());
  const dashboard = useQuery({
    ...apiQuery('GET /backup/dashboard', { query: { orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Card title="Backup">
      <Loaded query={dashboard} what="Reading the state of backups">
        {({ data: { cloud, coverage, jobsLast24h, storage } }) => (
          <Stack gap="xs">
            <Group justify="space-between">
              <Text size="sm">Devices with a verified snapshot</Text>
              <Text size="sm" fw={600}>
                {formatCount(coverage.protectedDevices)} of {formatCount(coverage.devices)}
              </Text>
            </Group>
            <Progress
              value={coverage.devices === 0 ? 0 : (coverage.protectedDevices / coverage.devices) * 100}
              aria-label="Share of devices with a verified snapshot"
            />
            <SimpleGrid cols={4}>
              <Figure label="Completed, 24 h" value={formatCount(jobsLast24h.completed)} />
              <Figure
                label="Failed, 24 h"
                value={formatCount(jobsLast24h.failed)}
                isBad={jobsLast24h.failed > 0}
              />
              <Figure label="Running" value={formatCount(jobsLast24h.running)} />
              <Figure label="Stored" value={formatBytes(storage.totalBytes)} />
            </SimpleGrid>
            {cloud.configs > 0 && (
              <Text size="sm" {...(cloud.protected < cloud.configs ? { c: 'red' } : {})}>
                {cloud.protected < cloud.configs
                  ? `${formatCounted(cloud.configs - cloud.protected, 'cloud backup')} of ${formatCount(cloud.configs)} failing, late or unprotected`
                  : `${formatCounted(cloud.configs, 'cloud backup')} in order`}
              </Text>
            )}
          </Stack>
        )}
      </Loaded>
    </Card>
  );
}

function Figure({ label, value, isBad = false }: { label: string; value: string; isBad?: boolean }) {
  return (
    <Stack gap={0}>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text fw={600} {...(isBad ? { c: 'red' } : {})}>
        {value}
      </Text>
    </Stack>
  );
}
