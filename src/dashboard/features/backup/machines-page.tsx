import { Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { call, useList, type FoundMachine } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  formatCount,
  formatCounted,
  ListPage,
  StateBadge,
  useAddress,
  When,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { deviceFacet, DeviceLink } from './selects.tsx';
import { MachineDrawer } from './machine-drawer.tsx';
import { type Hypervisor, HYPERVISOR_NAMES, STATES } from './texts.ts';

const route = getRouteApi('/signed-in/backup/machines');

const keyOf = ({ deviceId, vmId }: FoundMachine): string => `${deviceId} ${vmId}`;

/** The virtual machines of one hypervisor on devices, as those have last listed them. */
export function MachinesPage() {
  const address = useAddress(route.useSearch());
  const { device, hypervisor = 'hyperv', page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const [opened, setOpened] = useState<string>();
  const machines = useList(`GET /backup/${hypervisor}/vms`, {
    query: { orgId, deviceId: device, page: String(page) },
  });
  return (
    <ListPage
      frame={BackupFrame}
      title="Machines"
      description="Virtual machines of Hyper-V and KVM, as their hosts have last listed them."
      actions={<LookAgain deviceId={device} hypervisor={hypervisor} />}
      query={machines}
      noun="machines"
      keyOf={keyOf}
      address={address}
      facets={[
        {
          kind: 'view',
          name: 'hypervisor',
          label: 'Hypervisor',
          first: HYPERVISOR_NAMES.hyperv,
          options: [{ value: 'kvm', label: HYPERVISOR_NAMES.kvm }],
        },
        deviceFacet(address),
      ]}
      empty={{
        title: 'No machines are known',
        text: `Connect the host of ${HYPERVISOR_NAMES[hypervisor]} as a device, and look for its machines.`,
      }}
      noneFound={{
        title: 'No machines are known',
        text: `The device has named none of ${HYPERVISOR_NAMES[hypervisor]}. Look for its machines again.`,
      }}
      columns={[
        { header: 'Machine', isName: true, cell: ({ vmName }) => vmName },
        {
          header: 'Device',
          cell: ({ deviceId, listIsCut }) => (
            <>
              <DeviceLink id={deviceId} />
              {listIsCut === true && <Text size="xs">Not all of its machines are listed</Text>}
            </>
          ),
        },
        { header: 'State', width: 120, cell: ({ state }) => <StateBadge {...STATES[state]} /> },
        { header: 'Disks', width: 80, cell: ({ disks }) => formatCounted(disks.length, 'disk') },
        {
          header: 'Checkpoints',
          align: 'right',
          width: 110,
          cell: ({ checkpoints }) => formatCount(checkpoints.length),
        },
        { header: 'Found', width: 110, cell: (machine) => <When at={machine.lastDiscoveredAt} /> },
        {
          header: 'Actions',
          width: 90,
          cell: (machine) => (
            <Action inRow onClick={() => setOpened(keyOf(machine))}>
              Open
            </Action>
          ),
        },
      ]}
    >
      <MachineDrawer
        machine={machines.data?.data.find((machine) => keyOf(machine) === opened)}
        onClose={() => setOpened(undefined)}
      />
    </ListPage>
  );
}

/** Asks the chosen device, or those that were asked longest ago. */
function LookAgain({ deviceId, hypervisor }: { deviceId: string | undefined; hypervisor: Hypervisor }) {
  const list = `GET /backup/${hypervisor}/vms` as const;
  const queries = useQueryClient();
  const { orgId } = scopeQuery(useScope());
  const refusal = useRefusal('backup:read');
  const look = useMutation({
    mutationFn: async (asked: string | undefined) => {
      const query = { refresh: 'true' } as const;
      if (asked === undefined) await call(list, { query: { ...query, orgId } });
      else await call(`GET /backup/${hypervisor}/vms/{deviceId}`, { params: { deviceId: asked }, query });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: [list] }),
  });
  return (
    <>
      {look.error !== null && <Failure error={look.error} />}
      <Action
        variant="default"
        refusal={refusal}
        loading={look.isPending}
        onClick={() => look.mutate(deviceId)}
      >
        Look for machines
      </Action>
    </>
  );
}
