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
  const needs = (type: string) => (supports(device, type) ? undefined : refusedCommand(device, type));
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

/** What the commands of this page do, for people. */
const WORK: Readonly<Record<string, string>> = {
  'script.run': 'run scripts',
  'agent.reboot': 'restart the machine',
  'agent.refresh-inventory': 'send its inventory when asked',
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
