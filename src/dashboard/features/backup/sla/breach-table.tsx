import { Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { Loaded, PagedTable, StateBadge, When } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';

const EVENTS = {
  rpo_breach: 'The newest snapshot is too old',
  rto_breach: 'A restore would take too long',
  missed_backup: 'A backup did not happen',
} as const;

/** Where what was promised to customers was not kept, the newest first. */
export function BreachTable({
  orgId,
  limit,
  page = 1,
  onPage,
}: {
  orgId: string | undefined;
  limit: number;
  page?: number | undefined;
  /** Without it, only the first page is shown. */
  onPage?: (page: number) => void;
}) {
  const events = useQuery({
    ...apiQuery('GET /backup/sla/events', { query: { orgId, limit: String(limit), page: String(page) } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={events} what="Reading breaches">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Text size="sm">Nothing that was promised was missed.</Text>
        ) : (
          <PagedTable
            label="Breaches of SLAs"
            rows={data}
            keyOf={({ id }) => id}
            page={onPage === undefined ? undefined : pagination}
            onPage={onPage}
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
  );
}
