import { Button, Group, Text } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type Device, type DiagnosticLog } from '../../../../api/index.ts';
import { Empty, Loaded, PagedTable, When, type Column } from '../../../../ui/index.ts';
import { useDeviceSearch } from '../device-search.ts';
import { joined, LevelBadge, WordChips } from './log-level.tsx';
import { WithDetails } from './more-details.tsx';
import { RangeSelect, useRangeBegin } from './range-select.tsx';
import { SearchField } from '../../search-field.tsx';

const LEVELS = ['error', 'warn', 'info', 'debug'] as const;
const DEFAULT_RANGE = 'week';
const READ_AGAIN_MS = 20_000;

const COLUMNS: readonly Column<DiagnosticLog>[] = [
  { header: 'Time', cell: ({ timestamp }) => <When at={timestamp} />, width: 120 },
  { header: 'Level', cell: ({ level }) => <LevelBadge level={level} />, width: 100 },
  { header: 'Component', cell: ({ component }) => component, width: 160 },
  {
    header: 'Message',
    cell: ({ message, fields }) => <WithDetails details={fields}>{message}</WithDetails>,
  },
  { header: 'Agent', cell: ({ agentVersion }) => agentVersion ?? '–', width: 90 },
];

/** What the agent writes about itself. */
export function AgentLogsTab({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const range = search.range ?? DEFAULT_RANGE;
  const page = search.page ?? 1;
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/diagnostic-logs', {
      params: { id },
      query: {
        page: String(page),
        limit: '50',
        level: joined(search.level, LEVELS),
        component: search.source,
        search: search.q,
        since: useRangeBegin(range),
      },
    }),
    placeholderData: keepPreviousData,
    // A later page would move under the eyes of who reads it.
    refetchInterval: page === 1 ? READ_AGAIN_MS : false,
  });
  const isNarrowed =
    search.level !== undefined || search.source !== undefined || search.q !== undefined || range !== 'all';
  return (
    <>
      <Group gap="xs" mb="xs">
        <RangeSelect value={range} onChange={(next) => change({ range: next })} />
        <WordChips
          label="Level"
          words={LEVELS}
          chosen={search.level ?? []}
          onChange={(level) => change({ level })}
        />
        <SearchField
          label="Component, exactly"
          width={170}
          value={search.source}
          onChange={(source) => change({ source })}
        />
        <SearchField label="Search messages" value={search.q} onChange={(q) => change({ q })} />
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} aria-hidden />}
          loading={query.isRefetching}
          onClick={() => void query.refetch()}
        >
          Refresh
        </Button>
      </Group>
      <Text size="xs" mb="xs">
        Agents send their warnings and errors; more where they are set to.
      </Text>
      <Loaded query={query} what="Reading the log">
        {({ logs, total, limit, offset }) =>
          logs.length === 0 ? (
            <Empty
              title="No lines of the agent"
              action={
                isNarrowed && (
                  <Button
                    variant="default"
                    onClick={() =>
                      change({ level: undefined, source: undefined, q: undefined, range: 'all' })
                    }
                  >
                    Show all that is kept
                  </Button>
                )
              }
            >
              {isNarrowed
                ? 'Nothing that was sent matches these choices.'
                : 'The agent has had nothing to complain about.'}
            </Empty>
          ) : (
            <PagedTable
              label="Log of the agent"
              rows={logs}
              columns={COLUMNS}
              keyOf={(line) => line.id}
              page={{ page: Math.floor(offset / limit) + 1, limit, total }}
              onPage={(next) => change({ page: next })}
            />
          )
        }
      </Loaded>
    </>
  );
}
