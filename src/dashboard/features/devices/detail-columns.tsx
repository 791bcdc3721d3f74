import { useQuery } from '@tanstack/react-query';
import type { DeviceSummary } from '../../../protocol/index.ts';
import { type Answer, call, type CustomField } from '../../api/index.ts';
import { useScope } from '../../routing.ts';
import type { DataColumn } from '../../ui/data-table.tsx';
import { formatCount, When } from '../../ui/index.ts';
import { CUSTOM, detailsToAsk, isCustom } from './chosen-columns.ts';

/**
 * Columns of the list of devices that the live summaries do not have, read page by page when one of them is chosen. They
 * are read for all devices of the scope, not for the visible rows, so that they can be sorted, searched and exported.
 */

type Row = Answer<'GET /devices/columns'>['data'][number];
type Value = string | number | boolean | undefined;

/** Changes of these properties are rare. */
const STALE_MS = 60_000;
const AGAIN_MS = 300_000;
/** Of larger fleets, these devices have values: those that were enrolled first. */
const PAGES_MAX = 20;

interface Detail {
  id: string;
  header: string;
  width: number;
  align?: 'right';
  shown?: (value: string | number | boolean) => string;
}

const gib = (mib: string | number | boolean) => `${formatCount(Math.round(Number(mib) / 1024))} GiB`;

/** By the names that the API has for them. */
const DETAILS: readonly Detail[] = [
  { id: 'lastUser', header: 'Last user', width: 140 },
  { id: 'tags', header: 'Tags', width: 180 },
  { id: 'groups', header: 'Groups', width: 180 },
  { id: 'osVersion', header: 'System version', width: 220 },
  { id: 'osBuild', header: 'System build', width: 120 },
  { id: 'architecture', header: 'Architecture', width: 100 },
  { id: 'manufacturer', header: 'Manufacturer', width: 150 },
  { id: 'model', header: 'Model', width: 170 },
  { id: 'serialNumber', header: 'Serial number', width: 150 },
  { id: 'cpuModel', header: 'Processor', width: 220 },
  { id: 'cpuCores', header: 'Cores', width: 80, align: 'right' },
  { id: 'ramTotalMb', header: 'Memory size', width: 110, align: 'right', shown: gib },
  {
    id: 'diskTotalGb',
    header: 'Disk size',
    width: 110,
    align: 'right',
    shown: (size) => `${formatCount(Number(size))} GB`,
  },
  { id: 'gpuModel', header: 'Graphics', width: 200 },
  { id: 'ipAddress', header: 'IP address', width: 130 },
  { id: 'publicIp', header: 'Public address', width: 130 },
  { id: 'lastIp', header: 'Seen from', width: 130 },
  { id: 'macAddress', header: 'MAC address', width: 150 },
  { id: 'watchdogVersion', header: 'Watchdog', width: 100 },
  { id: 'autoUpdate', header: 'Automatic updates', width: 150 },
  { id: 'enrolledAt', header: 'Enrolled', width: 120 },
];

const shownValue = (value: Value): string | number | undefined =>
  typeof value === 'boolean' ? (value ? 'Yes' : 'No') : value;

/** The columns of the properties, and of the custom fields that organizations have defined. */
export function detailColumns(
  details: ReadonlyMap<string, Row>,
  customFields: readonly { key: string; name: string }[] = NONE,
): DataColumn<DeviceSummary>[] {
  const column = (
    { id, header, width, align, shown }: Detail,
    valueOf: (device: DeviceSummary) => Value,
  ): DataColumn<DeviceSummary> => ({
    id,
    header,
    width,
    ...(align === undefined ? {} : { align }),
    value: (device) => shownValue(valueOf(device)),
    cell: (device) => {
      const value = valueOf(device);
      if (value === undefined) return null;
      if (id === 'enrolledAt') return <When at={String(value)} />;
      const text = shown === undefined ? shownValue(value) : shown(value);
      return <span title={String(text)}>{text}</span>;
    },
  });
  return [
    ...DETAILS.map((detail) => column(detail, ({ id }) => details.get(id)?.values[detail.id])),
    ...customFields.map(({ key, name }) =>
      column({ id: CUSTOM + key, header: name, width: 150 }, ({ id }) => details.get(id)?.customFields[key]),
    ),
  ];
}

const NO_DETAILS: ReadonlyMap<string, Row> = new Map();

const PROPERTIES = DETAILS.map(({ id }) => id);

/**
 * The properties that the chosen columns show, for the devices of the scope.
 * @param customFields  undefined until they are known
 */
export function useDetails(
  chosen: readonly string[],
  customFields: readonly Pick<CustomField, 'key'>[] | undefined,
) {
  const { orgId, siteId } = useScope();
  const customKeys = (customFields ?? []).map(({ key }) => key);
  const wanted = detailsToAsk(chosen, { properties: PROPERTIES, customKeys });
  const query = useQuery({
    queryKey: ['GET /devices/columns', { wanted, orgId, siteId }],
    queryFn: async ({ signal }) => {
      const rows = new Map<string, Row>();
      let isWhole = true;
      for (const one of wanted) {
        // One after the other, as the pages of each are.
        // oxlint-disable-next-line no-await-in-loop
        if (!(await readDetails({ ...one, orgId, siteId }, rows, signal))) isWhole = false;
      }
      return { rows, isWhole };
    },
    enabled: wanted.length > 0 && (customFields !== undefined || !chosen.some(isCustom)),
    staleTime: STALE_MS,
    refetchInterval: AGAIN_MS,
    // A column that is added leaves the others as they are meanwhile.
    placeholderData: (before) => before,
  });
  return {
    details: query.data?.rows ?? NO_DETAILS,
    error: query.error,
    isCut: query.data?.isWhole === false,
  };
}

/** Adds the details of all devices to `rows`. @returns whether it is all of them */
async function readDetails(
  asked: { columns: string; customFields: string; orgId: string | undefined; siteId: string | undefined },
  rows: Map<string, Row>,
  signal: AbortSignal,
): Promise<boolean> {
  let after: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    // Each page begins where the one before has ended.
    // oxlint-disable-next-line no-await-in-loop
    const { data, nextAfter } = await call(
      'GET /devices/columns',
      { query: { ...asked, after } },
      { signal },
    );
    for (const row of data) {
      const known = rows.get(row.deviceId);
      rows.set(row.deviceId, {
        ...row,
        values: { ...known?.values, ...row.values },
        customFields: { ...known?.customFields, ...row.customFields },
      });
    }
    if (nextAfter === null) return true;
    after = nextAfter;
  }
  return false;
}

const FIELDS_PAGES_MAX = 10;
const NONE: readonly CustomField[] = [];

/** The custom fields of the scope, one for each key: organizations may define the same one. Undefined until they are known. */
export function useCustomFields(isNeeded: boolean): readonly Pick<CustomField, 'key' | 'name'>[] | undefined {
  const { orgId } = useScope();
  const { data, isError } = useQuery({
    queryKey: ['GET /custom-fields', 'of all', orgId],
    queryFn: async ({ signal }) => {
      const fields = new Map<string, CustomField>();
      for (let page = 1; page <= FIELDS_PAGES_MAX; page++) {
        const query = { orgId, page: String(page), limit: '100' };
        // The next page is needed only if this one was full.
        // oxlint-disable-next-line no-await-in-loop
        const { data: found } = await call('GET /custom-fields', { query }, { signal });
        for (const field of found) if (!fields.has(field.key)) fields.set(field.key, field);
        if (found.length < 100) break;
      }
      return [...fields.values()];
    },
    enabled: isNeeded,
    staleTime: STALE_MS,
  });
  // The other columns do not wait for what cannot be read.
  return data ?? (isError ? NONE : undefined);
}
