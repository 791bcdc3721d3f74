import { Anchor } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { apiQuery } from '../../../api/index.ts';
import { DeviceStatusBadge, Page } from '../../../ui/index.ts';
import { nameOfDevice } from './device-logs.ts';
import { LiveEventLog } from './live-event-log.tsx';

const route = getRouteApi('/signed-in/devices/$deviceId/logs');

/** The event log of one device on a page of its own, which can be linked. */
export function DeviceLogsPage() {
  const { deviceId } = route.useParams();
  const device = useQuery(apiQuery('GET /devices/{id}', { params: { id: deviceId } })).data;
  return (
    <Page
      title={device === undefined ? 'Event log' : `Event log of ${nameOfDevice(device)}`}
      fill
      actions={
        device !== undefined && (
          <>
            <Anchor
              size="sm"
              renderRoot={(props) => <Link {...props} to="/devices/$deviceId" params={{ deviceId }} />}
            >
              Open the device
            </Anchor>
            <DeviceStatusBadge status={device.status} presence={device.presence} />
          </>
        )
      }
    >
      <LiveEventLog deviceId={deviceId} />
    </Page>
  );
}
