import { Group, SegmentedControl } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, call, type FoundMachine } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  Empty,
  Failure,
  formatCount,
  formatCounted,
  Loaded,
  PagedTable,
  StateBadge,
  When,
} from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink, DeviceSelect } from '../parts/device-names.tsx';
import { MachineDrawer } from './machine-drawer.tsx';
import { type Hypervisor, HYPERVISOR_NAMES } from '../parts/hypervisor-names.ts';
import { STATES } from './machine-texts.ts';

const route = getRouteApi('/signed-in/backup/machines');

const keyOf = ({ deviceId, vmId }: FoundMachine): string => `${deviceId} ${vmId}`;

/** The virtual machines of one hypervisor on devices, as those have last listed them. */
export function MachinesPage() {
  const { device, hypervisor = 'hyperv', page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const [opened, setOpened] = useState<string>();
  const machines = useQuery({
    ...apiQuery(`GET /backup/${hypervisor}/vms`, { query: { orgId, deviceId: device, page: String(page) } }),
    placeholderData: keepPreviousData,
  });
  const shown = machines.data?.data.find((machine) => keyOf(machine) === opened);
  return (
    <BackupFrame
      title="Machines"
      description="Virtual machines of Hyper-V and KVM, as their hosts have last listed them."
      actions={<LookAgain deviceId={device} hypervisor={hypervisor} />}
    >
      <Group>
        <SegmentedControl
          aria-label="Hypervisor"
          data={Object.entries(HYPERVISOR_NAMES).map(([value, label]) => ({ value, label }))}
          value={hypervisor}
          onChange={(next) =>
            void navigate({
              search: { device, hypervisor: next === 'kvm' ? next : undefined },
              replace: true,
            })
          }
        />
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) =>
            void navigate({
              search: (before) => ({ ...before, device: next, page: undefined }),
              replace: true,
            })
          }
        />
      </Group>
      <Loaded query={machines} what="Reading machines">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No machines are known">
              Connect the host of {HYPERVISOR_NAMES[hypervisor]} as a device, and look for its machines.
            </Empty>
          ) : (
            <PagedTable
              label="Machines"
              rows={data}
              keyOf={keyOf}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                { header: 'Machine', isName: true, cell: ({ vmName }) => vmName },
                { header: 'Device', cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
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
                    <Action size="compact-xs" variant="subtle" onClick={() => setOpened(keyOf(machine))}>
                      Open
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <MachineDrawer machine={shown} onClose={() => setOpened(undefined)} />
    </BackupFrame>
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
