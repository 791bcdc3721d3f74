import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { ApiError, apiQuery, type Device } from '../../api/index.ts';
import { useConnection, useLiveDevices, type LiveDevices } from '../../live/index.ts';
import { useRefusal } from '../../session.ts';

/** Properties that the hub does not send, such as tags, are fetched again after this time. */
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

  // It was decommissioned meanwhile, here or elsewhere.
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

/** Why a person may not do something with this device: their rights come first, then the state of the device. */
export function useDeviceRefusals(device: Device) {
  const write = useRefusal('devices:write');
  const execute = useRefusal('devices:execute');
  const remove = useRefusal('devices:delete');
  const isGone = device.status === 'decommissioned';
  const gone = isGone ? 'This device is decommissioned. Restore it first.' : undefined;
  const waits = device.status === 'pending' ? 'This device waits for approval.' : undefined;
  const needs = (type: string) => (supports(device, type) ? undefined : refusedCommand(device, type));
  const away =
    device.presence.state === 'connected'
      ? undefined
      : 'The device is not connected. It can be asked when it is back.';
  const live = (type: string) => gone ?? waits ?? away ?? needs(type);
  return {
    write: write ?? gone,
    execute,
    maintenance: write ?? gone ?? refusedMaintenance(device.status),
    /** To send a command of this type. */
    command: (type: string) => execute ?? gone ?? waits ?? needs(type),
    /** To ask it something while a person waits. */
    live,
    /** To have it do something while a person waits. */
    act: (type: string) => execute ?? live(type),
    decommission: remove ?? gone,
    restore: remove ?? (isGone ? undefined : 'This device is in service.'),
  };
}

/** The commands of this page, as a sentence names them. */
const WORK: Readonly<Record<string, string>> = {
  'script.run': 'run scripts',
  'agent.reboot': 'restart the machine',
  'agent.refresh-inventory': 'send its inventory when asked',
  'processes.list': 'list processes',
  'processes.end': 'end processes',
  'services.list': 'list services when asked',
  'services.control': 'start and stop services',
};

function refusedCommand({ capabilities, presence }: Device, type: string): string {
  const work = WORK[type] ?? `run the command "${type}"`;
  if (capabilities.length === 0) return `The agent of this device has not reported that it can ${work}.`;
  return presence.state === 'connected'
    ? `The agent of this device cannot ${work}.`
    : `When it was last connected, the agent of this device could not ${work}. Upgrade it first.`;
}

function refusedMaintenance(status: Device['status']): string | undefined {
  return ['pending', 'quarantined', 'updating'].includes(status)
    ? `Maintenance cannot begin while the device is ${status}.`
    : undefined;
}

/** A device that was never connected has reported nothing yet, and gets the benefit of the doubt, as on the server. */
const supports = ({ capabilities, lastSeenAt }: Device, type: string): boolean =>
  capabilities.includes(type) || (capabilities.length === 0 && lastSeenAt === null);
