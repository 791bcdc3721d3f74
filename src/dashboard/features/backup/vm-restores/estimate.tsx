import { SimpleGrid } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { call, type BackupSnapshot, type VmEstimate } from '../../../api/index.ts';
import { formatBytes, formatCount, formatCounted, Loaded } from '../../../ui/index.ts';
import { FactTable } from '../parts/facts.tsx';
import { bootModeText, ConsistencyBadge } from '../parts/consistency.tsx';

const MIB = 2 ** 20;

/** What a machine of the snapshot needs. What is asked of the person comes once that is known. */
export function WithEstimate({
  snapshot: { id },
  children,
}: {
  snapshot: BackupSnapshot;
  children: (estimate: VmEstimate) => ReactNode;
}) {
  const estimate = useQuery({
    queryKey: ['POST /backup/restore/as-vm/estimate', id],
    queryFn: ({ signal }) =>
      call('POST /backup/restore/as-vm/estimate', { body: { snapshotId: id } }, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={estimate} what="Estimating what the machine needs">
      {children}
    </Loaded>
  );
}

export function EstimateFacts({ snapshot, estimate }: { snapshot: BackupSnapshot; estimate: VmEstimate }) {
  const { memoryMb, cpuCount, diskSizeGb, disks, osVersion, bootMode, storedBytes } = estimate;
  const { details } = snapshot;
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
            details?.kind === 'image' ? (
              <ConsistencyBadge key="consistency" value={details.consistency} />
            ) : undefined,
          ],
        ]}
      />
    </SimpleGrid>
  );
}
