import { useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { apiQuery, call, pathOf } from '../../../api/index.ts';
import type { FeedState } from '../feed/feed-state.ts';
import { curlOf } from '../model/curl.ts';
import { rowOfEntry, type LogRow } from '../model/log-row.ts';
import { viewOf, type LogSearch } from '../model/log-search.ts';
import type { EntryAbilities } from '../viewer/entry-panel.tsx';

/** The entry whose number is in the address: among the rows, or read from the device where a link led here. */
export function useLinkedEntry(
  deviceId: string,
  name: string | undefined,
  recordId: number | undefined,
  { rows, query }: FeedState,
): LogRow | undefined {
  // Every entry that is opened later was among the rows.
  const [linked] = useState(recordId);
  const loaded = recordId === undefined ? undefined : rows.find((row) => row.recordId === recordId);
  const entry = useQuery({
    ...apiQuery('GET /system-tools/devices/{deviceId}/eventlogs/{name}/events/{recordId}', {
      params: { deviceId, name: name ?? '', recordId: String(recordId ?? '') },
    }),
    enabled:
      query.state === 'ended' &&
      name !== undefined &&
      recordId !== undefined &&
      recordId === linked &&
      loaded === undefined,
    staleTime: Infinity,
    retry: false,
  });
  return useMemo(() => {
    if (recordId === undefined) return undefined;
    return loaded ?? (entry.data === undefined ? undefined : rowOfEntry(deviceId, entry.data.data));
  }, [recordId, loaded, entry.data, deviceId]);
}

/** A link to an entry of a device, a command that reads it, and its neighbours. */
export function useEntryAbilities(deviceId: string, name: string, search: LogSearch): EntryAbilities {
  const router = useRouter();
  return {
    link: (row) => {
      const { href } = router.buildLocation({
        to: '/devices/$deviceId/logs',
        params: { deviceId },
        search: {
          ...viewOf(search),
          log: name,
          ...(row.recordId === undefined ? {} : { record: row.recordId }),
        },
      });
      return window.location.origin + href;
    },
    curl: ({ recordId }) =>
      recordId === undefined
        ? undefined
        : curlOf(
            window.location.origin +
              pathOf('GET /system-tools/devices/{deviceId}/eventlogs/{name}/events/{recordId}', {
                params: { deviceId, name, recordId: String(recordId) },
              }),
          ),
    read: (_row, signal) => async (ends) => {
      const { data } = await call(
        'GET /system-tools/devices/{deviceId}/eventlogs/{name}/events',
        { params: { deviceId, name }, query: { ...ends, limit: String(ends.limit) } },
        { signal },
      );
      return data.map((entry) => rowOfEntry(deviceId, entry));
    },
  };
}
