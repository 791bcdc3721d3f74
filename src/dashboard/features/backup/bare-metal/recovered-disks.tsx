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
      // A machine may name several disks alike.
      rows={disks.map((disk, place) => ({ ...disk, key: `${place}` }))}
      keyOf={({ key }) => key}
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
  const texts = failed.map(({ name, message }) => `${name}: ${message ?? 'it has failed'}`);
  return [...new Set(texts)].map((text) => (
    <Text key={text} size="sm">
      {text}
    </Text>
  ));
}
