import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { Loaded, PagedTable, StateBadge, When } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { Panel } from './panel.tsx';

const SHOWN = '8';
const EVENTS = {
  rpo_breach: 'The newest snapshot is too old',
  rto_breach: 'A restore would take too long',
  missed_backup: 'A backup did not happen',
} as const;

/** Where what was promised to customers was not kept. */
export function SlaEvents() {
  const events = useQuery(apiQuery('GET /backup/sla/events', { query: { limit: SHOWN } }));
  return (
    <Panel title="Breaches of SLAs">
      <Loaded query={events} what="Reading breaches">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">Nothing that was promised was missed.</Text>
          ) : (
            <PagedTable
              label="Breaches of SLAs"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                { header: 'What', cell: ({ eventType }) => EVENTS[eventType] },
                { header: 'Since', width: 110, cell: ({ detectedAt }) => <When at={detectedAt} /> },
                {
                  header: 'State',
                  width: 110,
                  cell: ({ resolvedAt }) =>
                    resolvedAt === null ? (
                      <StateBadge tone="bad" label="It lasts" />
                    ) : (
                      <StateBadge tone="good" label="Over" />
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}
