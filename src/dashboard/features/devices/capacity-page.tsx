import { Progress, Stack, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useList, type Input } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { formatBytes, formatPercent, ListPage, TextLink, useAddress, When } from '../../ui/index.ts';
import { FilterSelect } from './filter-select.tsx';
import { type Figure, forecastText } from './forecast-text.ts';
import { FIGURE_FORMATS } from './figure-formats.ts';
import type { ChartUnit } from './metric-charts.ts';

const route = getRouteApi('/signed-in/capacity');

const VOLUMES = 'volumePercent';
const SHOWN = '100';
const REFRESH_MS = 60_000;
/** From this share on, a volume is shown as almost full. */
const HIGH_PERCENT = 90;

type RankedMetric = NonNullable<NonNullable<Input<'GET /metrics/now'>['query']>['metric']>;

/** What devices are put in order by. */
const RANKINGS: readonly { value: RankedMetric; label: string; unit: ChartUnit }[] = [
  { value: VOLUMES, label: 'Volumes by how full', unit: 'percent' },
  { value: 'cpuPercent', label: 'Processor', unit: 'percent' },
  { value: 'ramPercent', label: 'Memory', unit: 'percent' },
  { value: 'swapPercent', label: 'Swap', unit: 'percent' },
  { value: 'load', label: 'Load', unit: 'number' },
  { value: 'networkReceivedPerSecond', label: 'Network received', unit: 'bytesPerSecond' },
  { value: 'networkSentPerSecond', label: 'Network sent', unit: 'bytesPerSecond' },
  { value: 'diskReadPerSecond', label: 'Disk read', unit: 'bytesPerSecond' },
  { value: 'diskWrittenPerSecond', label: 'Disk written', unit: 'bytesPerSecond' },
];

/** The fullest volumes and the busiest devices, by what they have just measured. */
export function CapacityPage() {
  const address = useAddress(route.useSearch());
  const names = useNames();
  const { filter, metric = VOLUMES } = address.search;
  const ranking = RANKINGS.find(({ value }) => value === metric) ?? RANKINGS[0];
  const isOfVolumes = ranking?.value === VOLUMES;
  const format = FIGURE_FORMATS[ranking?.unit ?? 'number'];
  const { orgId } = scopeQuery(useScope());
  const figures = useList(
    'GET /metrics/now',
    { query: { metric: ranking?.value, filterId: filter, orgId, limit: SHOWN } },
    REFRESH_MS,
  );
  return (
    <ListPage
      title="Capacity"
      description="The fullest volumes and the busiest devices, among those that have sent figures in the last ten minutes."
      query={figures}
      noun="figures"
      label={ranking?.label ?? 'Figures'}
      keyOf={({ deviceId, volume }) => `${deviceId} ${volume ?? ''}`}
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'metric',
          label: 'What is compared',
          any: 'Volumes by how full',
          first: VOLUMES,
          width: 200,
          options: RANKINGS,
        },
        {
          kind: 'own',
          name: 'filter',
          control: (
            <FilterSelect value={filter} orgId={orgId} onChange={(id) => address.narrow({ filter: id })} />
          ),
        },
      ]}
      notice={
        figures.data?.isComplete === false && (
          <Text size="sm">
            There are too many devices to compare all. Choose an organization or a filter.
          </Text>
        )
      }
      empty={{
        title: 'No device has sent figures in the last ten minutes',
        text: 'Connected agents send their figures every five minutes.',
        action: <TextLink to="/devices">All devices</TextLink>,
      }}
      noneFound={{
        title: 'No such device has sent figures',
        text: 'None that the filter matches, in the last ten minutes.',
      }}
      columns={[
        {
          header: 'Device',
          isName: true,
          cell: ({ deviceId, displayName, hostname }) => (
            <TextLink inherit to="/devices/$deviceId" params={{ deviceId }} search={{ tab: 'metrics' }}>
              {displayName ?? hostname}
            </TextLink>
          ),
        },
        orgId === undefined && {
          header: 'Organization',
          cell: ({ orgId: of }) => names.organization(of),
        },
        isOfVolumes && { header: 'Volume', cell: ({ volume }) => volume },
        isOfVolumes && { header: 'Used', cell: (row) => <UsedShare row={row} /> },
        isOfVolumes && { header: 'Forecast', cell: ({ forecast }) => forecastText(forecast) },
        !isOfVolumes && { header: 'Now', align: 'right', cell: ({ value }) => format(value) },
        { header: 'Measured', cell: ({ at }) => <When at={at} /> },
      ]}
    />
  );
}

function UsedShare({ row: { value, usedBytes = 0, totalBytes = 0 } }: { row: Figure }) {
  const isHigh = value >= HIGH_PERCENT;
  return (
    <Stack gap={2} miw={160}>
      <Text size="sm" {...(isHigh ? { fw: 700 } : {})}>
        {formatPercent(value)}, {formatBytes(totalBytes - usedBytes)} free of {formatBytes(totalBytes)}
      </Text>
      <Progress value={value} size="xs" aria-hidden {...(isHigh ? { color: 'red' } : {})} />
    </Stack>
  );
}
