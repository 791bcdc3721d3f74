import { Button, Group, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type AuditLog, type Device } from '../../../../api/index.ts';
import {
  Empty,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Column,
} from '../../../../ui/index.ts';
import { useDeviceSearch } from '../device-search.ts';
import { WithDetails } from './more-details.tsx';
import { RangeSelect, useRangeBegin } from './range-select.tsx';

const DEFAULT_RANGE = 'month';
const TONES = { success: 'good', failure: 'warning', denied: 'bad' } as const;

const COLUMNS: readonly Column<AuditLog>[] = [
  { header: 'Time', cell: ({ timestamp }) => <When at={timestamp} />, width: 120 },
  {
    header: 'Who',
    width: 200,
    cell: ({ user, ipAddress }) => (
      <>
        {user.name ?? user.email ?? 'Muster'}
        {ipAddress !== null && <Text size="xs">from {ipAddress}</Text>}
      </>
    ),
  },
  { header: 'Action', cell: ({ action }) => formatWord(action), isName: true, width: 190 },
  {
    header: 'Result',
    width: 110,
    cell: ({ result }) => <StateBadge tone={TONES[result]} label={formatWord(result)} />,
  },
  {
    header: 'What',
    cell: ({ resource, details }) => (
      <WithDetails details={details}>{resource.name ?? formatWord(resource.type)}</WithDetails>
    ),
  },
];

/** Who did what with this device. */
export function AuditTab({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const range = search.range ?? DEFAULT_RANGE;
  const page = search.page ?? 1;
  const query = useQuery({
    ...apiQuery('GET /audit-logs/search', {
      query: { q: id, page: String(page), limit: '50', from: useRangeBegin(range) },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <Group gap="xs" mb="xs">
        <RangeSelect value={range} onChange={(next) => change({ range: next })} />
        <Button variant="default" loading={query.isRefetching} onClick={() => void query.refetch()}>
          Refresh
        </Button>
      </Group>
      <Loaded query={query} what="Reading the audit trail">
        {({ data, pagination: { limit, total } }) =>
          data.length === 0 ? (
            <Empty
              title="No entries"
              action={
                range !== 'all' && (
                  <Button variant="default" onClick={() => change({ range: 'all' })}>
                    Show all that is kept
                  </Button>
                )
              }
            >
              Nobody has done anything with this device in this time.
            </Empty>
          ) : (
            <PagedTable
              label="Audit entries about the device"
              rows={data}
              columns={COLUMNS}
              keyOf={(entry) => entry.id}
              page={{ page, limit, total: total ?? data.length }}
              onPage={(next) => change({ page: next })}
            />
          )
        }
      </Loaded>
    </>
  );
}
