import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { apiQuery, type Device } from '../../../api/index.ts';
import { useSites } from '../../../directory/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Forbidden, Loaded } from '../../../ui/index.ts';
import { isZone } from '../model/log-time.ts';
import { beginning, useLogMemory } from '../query-bar/saved-views.ts';
import { LiveLogs } from './live-logs.tsx';
import { StoredLogs } from './stored-logs.tsx';
import { useLogAddress } from './use-log-address.ts';

const PRESENCE_MS = 10_000;

/** The event logs of a device, live, or what the server has stored of them. For the page or the tab of one device. */
export function LiveEventLog({ deviceId }: { deviceId: string }) {
  const refusal = useRefusal('devices:read');
  const device = useQuery({
    ...apiQuery('GET /devices/{id}', { params: { id: deviceId } }),
    enabled: refusal === undefined,
    // A device that comes back is read at once.
    refetchInterval: ({ state }) => (state.data?.presence.state === 'connected' ? false : PRESENCE_MS),
  });
  if (refusal !== undefined) return <Forbidden reason={refusal} />;
  return (
    <Loaded query={device} what="Reading the device">
      {(data) => <DeviceLogs key={data.id} device={data} />}
    </Loaded>
  );
}

function DeviceLogs({ device }: { device: Device }) {
  const { search, change } = useLogAddress();
  const memory = useLogMemory(device.osType);
  const zone = useSites().find(({ id }) => id === device.siteId)?.timezone;
  useEffect(() => {
    const begun = beginning(search, memory.memory);
    if (begun !== search) change(begun);
    // Only what the page was opened with is completed.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const props = {
    device,
    search,
    change,
    memory,
    deviceZone: zone !== undefined && isZone(zone) ? zone : undefined,
  };
  return search.stored === true ? <StoredLogs {...props} /> : <LiveLogs {...props} />;
}
