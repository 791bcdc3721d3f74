import { Text } from '@mantine/core';
import type { RecoveryToken } from '../../../api/index.ts';
import { formatCounted, PagedTable } from '../../../ui/index.ts';

type Disk = NonNullable<RecoveryToken['result']>['disks'][number];

/** What became of each disk, and which checks of it have failed. */
export function RecoveredDisks({ disks }: { disks: readonly Disk[] }) {
  if (disks.length === 0) return null;
  return (
    <PagedTable
      label="Recovered disks"
      rows={disks}
      keyOf={({ disk, target }) => `${disk} ${target}`}
      columns={[
        { header: 'Disk', isName: true, cell: ({ disk }) => disk },
        { header: 'Onto', cell: ({ target }) => target },
        {
          header: 'Checks',
          cell: ({ checks }) => <Checks checks={checks} />,
        },
      ]}
    />
  );
}

function Checks({ checks }: Pick<Disk, 'checks'>) {
  const failed = checks.filter(({ ok }) => !ok);
  if (failed.length === 0) return `${formatCounted(checks.length, 'check')}, all good`;
  return failed.map(({ name, message }) => (
    <Text key={name} size="sm">
      {name}: {message ?? 'it has failed'}
    </Text>
  ));
}
