import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery } from '../../../api/index.ts';
import { Action, formatCount, formatDuration, Loaded, PagedTable, Panel } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { ageText, Risks } from './risks.tsx';

const GOOD = 85;
const SHOWN = 8;
const REFRESH_MS = 60_000;
const MINUTE_MS = 60_000;

/** How surely each device can be restored, and what speaks against it: the least ready first. */
export function Readiness({ orgId }: { orgId: string | undefined }) {
  const [isWhole, setWhole] = useState(false);
  const readiness = useQuery({
    ...apiQuery('GET /backup/recovery-readiness', { query: { orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel title="Readiness for recovery">
      <Loaded query={readiness} what="Reading the readiness">
        {({ data: { summary, devices } }) => {
          const atRisk = devices.filter(({ readinessScore }) => readinessScore < GOOD);
          const shown = isWhole ? atRisk : atRisk.slice(0, SHOWN);
          return (
            <Stack gap="sm">
              <Text size="sm">
                {summary.averageScore === null
                  ? 'There is no device to restore yet.'
                  : `On average ${Math.round(summary.averageScore)} of 100 points. ${formatCount(summary.highReadiness)} of ${formatCount(summary.devices)} devices are ready, ${formatCount(summary.lowReadiness)} are far from it.`}
              </Text>
              {shown.length > 0 && (
                <PagedTable
                  label="Devices at risk"
                  rows={shown}
                  keyOf={({ deviceId }) => deviceId}
                  columns={[
                    {
                      header: 'Device',
                      isName: true,
                      width: 180,
                      cell: ({ deviceId }) => <DeviceLink id={deviceId} />,
                    },
                    {
                      header: 'Points',
                      align: 'right',
                      width: 70,
                      cell: ({ readinessScore }) => readinessScore,
                    },
                    { header: 'Risks', cell: ({ riskFactors }) => <Risks risks={riskFactors} /> },
                    {
                      header: 'Newest snapshot',
                      width: 130,
                      cell: ({ estimatedRpoMinutes }) => ageText(estimatedRpoMinutes),
                    },
                    {
                      header: 'A restore takes',
                      width: 130,
                      cell: ({ estimatedRtoMinutes: minutes }) =>
                        minutes === null ? 'Never measured' : formatDuration(minutes * MINUTE_MS),
                    },
                  ]}
                />
              )}
              {atRisk.length > SHOWN && (
                <Group>
                  <Action size="compact-sm" variant="default" onClick={() => setWhole(!isWhole)}>
                    {isWhole ? 'Show fewer' : `Show all ${formatCount(atRisk.length)}`}
                  </Action>
                </Group>
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}
