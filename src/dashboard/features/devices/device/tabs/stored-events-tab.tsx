import { Button, Group } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type Device, type StoredEvent } from '../../../../api/index.ts';
import { Empty, formatWord, Loaded, PagedTable, When, type Column } from '../../../../ui/index.ts';
import { useDeviceSearch } from '../device-search.ts';
import { joined, LevelBadge, WordChips } from './log-level.tsx';
import { WithDetails } from './more-details.tsx';
import { RangeSelect, useRangeBegin } from './range-select.tsx';
import { SearchField } from '../../search-field.tsx';

const LEVELS = ['critical', 'error', 'warning', 'info'] as const;
const CATEGORIES = ['security', 'hardware', 'application', 'system'] as const;
const DEFAULT_RANGE = 'week';

const COLUMNS: readonly Column<StoredEvent>[] = [
  { header: 'Time', cell: ({ timestamp }) => <When at={timestamp} />, width: 120 },
  { header: 'Level', cell: ({ level }) => <LevelBadge level={level} />, width: 110 },
  { header: 'Category', cell: ({ category }) => formatWord(category), width: 110 },
  { header: 'Source', cell: ({ source }) => source, width: 180 },
  {
    header: 'Message',
    cell: ({ message, details }) => <WithDetails details={details}>{message}</WithDetails>,
  },
];

/** The events that the agent has sent to be kept. */
export function StoredEventsTab({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const range = search.range ?? DEFAULT_RANGE;
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/eventlogs', {
      params: { id },
      query: {
        page: String(search.page ?? 1),
        limit: '50',
        level: joined(search.level, LEVELS),
        category: joined(search.category, CATEGORIES),
        source: search.source,
        startDate: useRangeBegin(range),
      },
    }),
    placeholderData: keepPreviousData,
  });
  const isNarrowed =
    search.level !== undefined ||
    search.category !== undefined ||
    search.source !== undefined ||
    range !== 'all';
  const showAll = () => change({ level: undefined, category: undefined, source: undefined, range: 'all' });
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
        <WordChips
          label="Category"
          words={CATEGORIES}
          chosen={search.category ?? []}
          onChange={(category) => change({ category })}
        />
        <SearchField
          label="Source, exactly"
          width={160}
          value={search.source}
          onChange={(source) => change({ source })}
        />
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} aria-hidden />}
          loading={query.isRefetching}
          onClick={() => void query.refetch()}
        >
          Refresh
        </Button>
      </Group>
      <Loaded query={query} what="Reading the events">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title="No stored events"
              action={
                isNarrowed && (
                  <Button variant="default" onClick={showAll}>
                    Show all that is kept
                  </Button>
                )
              }
            >
              {isNarrowed
                ? 'Nothing that was stored matches these choices.'
                : 'The agent has sent no events to be kept. The live event log reads the device itself.'}
            </Empty>
          ) : (
            <PagedTable
              label="Stored events"
              rows={data}
              columns={COLUMNS}
              keyOf={(event) => event.id}
              page={pagination}
              onPage={(page) => change({ page })}
            />
          )
        }
      </Loaded>
    </>
  );
}
