import type { Device } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';

/** Why a person may not do something with this device: their rights come first, then the state of the device. */
export function useDeviceRefusals(device: Device) {
  const write = useRefusal('devices:write');
  const execute = useRefusal('devices:execute');
  const remove = useRefusal('devices:delete');
  const isGone = device.status === 'decommissioned';
  const gone = isGone ? 'This device is decommissioned. Restore it first.' : undefined;
  const waits = device.status === 'pending' ? 'This device waits for approval.' : undefined;
  const needs = (type: string) =>
    supports(device, type) ? undefined : `The agent of this device cannot do "${type}".`;
  return {
    write: write ?? gone,
    execute,
    maintenance: write ?? gone ?? refusedMaintenance(device.status),
    /** To send a command of this type. */
    command: (type: string) => execute ?? gone ?? waits ?? needs(type),
    decommission: remove ?? gone,
    restore: remove ?? (isGone ? undefined : 'This device is in service.'),
  };
}

function refusedMaintenance(status: Device['status']): string | undefined {
  return ['pending', 'quarantined', 'updating'].includes(status)
    ? `Maintenance cannot begin while the device is ${status}.`
    : undefined;
}

/** A device that was never connected has reported nothing yet, and gets the benefit of the doubt, as on the server. */
const supports = ({ capabilities, lastSeenAt }: Device, type: string): boolean =>
  capabilities.includes(type) || (capabilities.length === 0 && lastSeenAt === null);
