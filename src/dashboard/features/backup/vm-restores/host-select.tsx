import { Select } from '@mantine/core';
import { useEffect } from 'react';
import { ENGINE_MISSING_CAPABILITY } from '../../../../protocol/index.ts';
import type { Device } from '../../../api/index.ts';
import { deviceName, useDevices } from '../parts/device-names.tsx';

/** Devices whose agent can do it, and which have restic. */
const isAble = ({ capabilities }: Device, capability: string): boolean =>
  capabilities.includes(capability) && !capabilities.includes(ENGINE_MISSING_CAPABILITY);

/** The devices of an organization that can be the host of a machine; the first choice is the one that was backed up. */
export function HostSelect({
  orgId,
  first,
  capability,
  value,
  onChange,
  error,
}: {
  orgId: string;
  first: string;
  capability: string;
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error: string | undefined;
}) {
  const hosts = useDevices(orgId).filter((device) => isAble(device, capability));
  const usual =
    hosts.find(({ id }) => id === first) ?? hosts.find(({ status }) => status === 'online') ?? hosts[0];
  const chosen = value ?? usual?.id;
  // The form sends what is shown.
  useEffect(() => {
    if (value === undefined && chosen !== undefined) onChange(chosen);
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [value, chosen]);
  return (
    <Select
      label="Host"
      required
      searchable
      allowDeselect={false}
      limit={100}
      description={
        hosts.length === 0
          ? 'No device of the organization can start machines. It takes one with Linux, the agent, restic and qemu.'
          : 'A device of the organization with Linux, restic and qemu. One that is away begins when it returns.'
      }
      nothingFoundMessage="No such host"
      data={hosts.map((device) => ({
        value: device.id,
        label: device.status === 'online' ? deviceName(device) : `${deviceName(device)} (${device.status})`,
      }))}
      value={chosen ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error}
    />
  );
}
