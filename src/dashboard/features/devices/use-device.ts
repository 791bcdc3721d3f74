import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { ApiError, apiQuery, type Device } from '../../../api/index.ts';
import { useConnection, useLiveDevices, type LiveDevices } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';

/** What the hub does not send, such as tags, is read again in this time. */
const READ_AGAIN_MS = 60_000;
const READ_AGAIN_WITHOUT_HUB_MS = 15_000;

/** A device as the API has it, with what the hub sends about it written over it. */
export function useDevice(id: string): {
  query: { error: Error | null; refetch: () => Promise<unknown> };
  device: Device | undefined;
  live: LiveDevices['state'];
} {
  const queries = useQueryClient();
  const read = apiQuery('GET /devices/{id}', { params: { id } });
  const connection = useConnection();
  const mayFollow = useRefusal('filters:read') === undefined;
  const query = useQuery({
    ...read,
    refetchInterval: ({ state: { error } }) => {
      if (isMissing(error)) return false;
      return mayFollow && connection.state === 'live' ? READ_AGAIN_MS : READ_AGAIN_WITHOUT_HUB_MS;
    },
  });
  const { data } = query;
  const live = useLiveDevices(
    data === undefined || !mayFollow
      ? undefined
      : {
          orgId: data.orgId,
          conditions: {
            operator: 'AND',
            conditions: [{ field: 'hostname', operator: 'equals', value: data.hostname }],
          },
        },
  );
  const summary = live.devices.find((device) => device.id === id);

  // The hub says that something has changed; the API has the whole of it.
  const seen =
    summary === undefined
      ? ''
      : [
          summary.orgId,
          summary.siteId,
          summary.status,
          summary.displayName,
          summary.agentVersion,
          summary.presence.since,
        ].join(' ');
  const before = useRef(seen);
  useEffect(() => {
    if (before.current === seen) return;
    const isFirst = before.current === '';
    before.current = seen;
    if (!isFirst) void queries.invalidateQueries({ queryKey: ['GET /devices/{id}', { params: { id } }] });
  }, [seen, id, queries]);

  // It was there, and no longer is: somebody has decommissioned it, here or elsewhere.
  if (data !== undefined && isMissing(query.error)) {
    return { query, device: { ...data, status: 'decommissioned' }, live: live.state };
  }
  if (data === undefined || summary === undefined) return { query, device: data, live: live.state };
  const { metrics, lastSeenAt } = summary;
  const device = {
    ...data,
    ...summary,
    metrics: metrics === null || lastSeenAt === null ? data.metrics : { ...metrics, at: lastSeenAt },
  };
  return { query, device, live: live.state };
}

/** Devices out of service are not read one by one. */
export const isMissing = (error: Error | null): boolean => error instanceof ApiError && error.status === 404;
