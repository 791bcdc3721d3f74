import { SimpleGrid } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { call, type VmEstimate } from '../../../api/index.ts';
import { formatBytes, formatCount, formatCounted, Loaded } from '../../../ui/index.ts';
import { FactTable } from '../parts/facts.tsx';
import { bootModeText, ConsistencyBadge } from '../parts/consistency.tsx';
import type { MachineSource } from './machine-wish.ts';

const MIB = 2 ** 20;

/** What a machine of the snapshot needs. What is asked of the person comes once that is known. */
export function WithEstimate({
  source: { snapshot, machine },
  children,
}: {
  source: MachineSource;
  children: (estimate: VmEstimate) => ReactNode;
}) {
  const body = { snapshotId: snapshot.id, ...(machine === undefined ? {} : { machine: machine.id }) };
  const estimate = useQuery({
    queryKey: ['POST /backup/restore/as-vm/estimate', body],
    queryFn: ({ signal }) => call('POST /backup/restore/as-vm/estimate', { body }, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={estimate} what="Estimating what the machine needs">
      {children}
    </Loaded>
  );
}

export function EstimateFacts({
  source: { snapshot, machine },
  estimate,
}: {
  source: MachineSource;
  estimate: VmEstimate;
}) {
  const { memoryMb, cpuCount, diskSizeGb, disks, osVersion, bootMode, storedBytes } = estimate;
  const image = snapshot.details?.kind === 'image' ? snapshot.details : undefined;
  const consistency = (machine ?? image)?.consistency;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xs">
      <FactTable
        label="What the machine needs"
        facts={[
          ['Memory', formatBytes(memoryMb * MIB)],
          ['Processors', formatCount(cpuCount)],
          ['Disks', `${formatCounted(disks.length, 'disk')}, ${formatCount(diskSizeGb)} GiB at most`],
          ['In use', storedBytes === null ? undefined : formatBytes(storedBytes)],
        ]}
      />
      <FactTable
        label="What the machine is"
        facts={[
          ['System', osVersion ?? 'Not known'],
          ['Starts by', bootModeText(bootMode)],
          [
            'Consistency',
            consistency === undefined ? undefined : (
              <ConsistencyBadge key="consistency" value={consistency} />
            ),
          ],
        ]}
      />
    </SimpleGrid>
  );
}
